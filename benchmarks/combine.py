"""What a step costs under each way of combining three tasks: time in turns, and memory at its peak.

    python benchmarks/combine.py [--data FOLDER] [--turns N] [--write]

Default encoder, three tasks, batch 16. With --data the tasks are SST-5, Quora pairs and STS from a folder of the
course's csv files, else the generated demonstration tasks. --write puts the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable

import torch
from torchjd.aggregation import Aggregator, PCGrad, UPGrad
from torchjd.autojac import jac_to_grad, mtl_backward

from manyheads.console import Reporter
from manyheads.parts.scalarizers import Sum
from manyheads.registry import find
from manyheads.tasks.resolve import load_recipe
from manyheads.tokens.packing import merge_equal, pack
from manyheads.training.gradients.combination import Combination
from manyheads.training.gradients.task_gradients import shared_parameters
from manyheads.training.schedule import set_trainable
from manyheads.training.setup import Setup, assemble
from side_by_side import machine, peak_memory, ratio, time_in_turns, write_block


def three_tasks(data: str | None) -> Setup:
    """A setup on the default encoder, made ready but for its run folder."""
    source, root = ("best", {"data.root": data}) if data else ("demo", {})
    recipe = load_recipe(source, {**root, "training.max_steps": 200, "training.batch_size": 16})
    setup = assemble(recipe, Reporter(quiet=True))
    set_trainable(setup.model, setup.schedule.phases[0])
    return setup


class Ways:
    """Each way as a whole training step: forward, backward, combining, clipping, AdamW."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.names = list(setup.model.tasks)
        self.shared = list(shared_parameters(setup.model).values())

    def all(self) -> dict[str, Callable[[int], None]]:
        return {
            "sum": self._ours(None),
            "sum, task by task": self._unmerged_sum,
            "pcgrad": self._ours("pcgrad"),
            "pcgrad, bf16 copies": self._ours("pcgrad", torch.bfloat16),
            "upgrad": self._ours("upgrad"),
            "pcgrad, flattened and stacked": self._direct,
            "pcgrad by torchjd.autojac": self._torchjd(PCGrad()),
            "upgrad by torchjd.autojac": self._torchjd(UPGrad()),
        }

    def _finish(self) -> None:
        torch.nn.utils.clip_grad_norm_(self.setup.model.parameters(), 1.0)
        for group in self.setup.optimizer.param_groups:
            group["lr"] = 0.0  # the work of a step without its effect
        self.setup.optimizer.step()
        self.setup.optimizer.zero_grad(set_to_none=True)

    def _ours(self, name: str | None, copies: torch.dtype | None = None) -> Callable[[int], None]:
        aggregator = find("aggregators", name).factory(self.names) if name else None
        combination = Combination(Sum(self.names), aggregator, copies=copies)

        def run(step: int) -> None:
            self.setup.backward.step(self.setup.rounds(step), combination, (0, step))
            self._finish()

        return run

    def _losses(self, step: int, task: str | None = None) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Losses of a step's round, or of one of its tasks, and the encoder's states that they were made of."""
        model, data = self.setup.model, self.setup.datasets.train
        batches = [one for one in self.setup.rounds(step)[0] if task in (None, one.task)]
        inputs = [[data[one.task].inputs(model, row) for row in one.indices.tolist()] for one in batches]
        sequences = [one for some in inputs for example in some for one in example]
        distinct, places = merge_equal(sequences, everywhere=False)
        tokens = pack(distinct)
        layers = {model.head(one.task).pooling.layer for one in batches}
        states = model.encoder.states(model.encoder.embed(tokens), tokens, layers)
        where = torch.tensor(places)
        starts, lengths = tokens.kept_starts[where], tokens.kept_lengths[where]
        losses, first = [], 0
        for one, some in zip(batches, inputs, strict=True):
            own = slice(first, first + sum(map(len, some)))
            output = model.head(one.task)(states, starts[own], lengths[own])
            labels = data[one.task].labels
            assert labels is not None
            losses.append(model.head(one.task).loss(output, labels[one.indices]).mean())
            first = own.stop
        return losses, list(states.values())

    def _unmerged_sum(self, step: int) -> None:
        for task in self.names:
            self._losses(step, task)[0][0].backward()
        self._finish()

    def _direct(self, step: int) -> None:
        """As it is often written: every gradient flattened, all of them stacked, loops over pairs."""
        gradients = []
        for task in self.names:
            own = list(self.setup.model.head(task).parameters())
            loss = self._losses(step, task)[0][0]
            found = torch.autograd.grad(loss, [*self.shared, *own], allow_unused=True)
            for parameter, gradient in zip(own, found[len(self.shared) :], strict=True):
                parameter.grad = gradient
            gradients.append(
                torch.cat(
                    [
                        (torch.zeros_like(one) if gradient is None else gradient).flatten()
                        for one, gradient in zip(self.shared, found, strict=False)
                    ]
                )
            )
        stacked = torch.stack(gradients)
        projected = stacked.clone()
        for i in range(len(stacked)):
            for j in torch.randperm(len(stacked)).tolist():
                inner = projected[i] @ stacked[j]
                if i != j and inner < 0:
                    projected[i] -= inner / (stacked[j] @ stacked[j]) * stacked[j]
        total, first = projected.sum(dim=0), 0
        for one in self.shared:
            one.grad = total[first : first + one.numel()].view_as(one)
            first += one.numel()
        self._finish()

    def _torchjd(self, aggregator: Aggregator) -> Callable[[int], None]:
        def run(step: int) -> None:
            losses, features = self._losses(step)
            mtl_backward(losses, features, parallel_chunk_size=1)  # in parallel: no vmap of in-place attention
            jac_to_grad(self.shared_used(), aggregator)
            self._finish()

        return run

    def shared_used(self) -> list[torch.nn.Parameter]:
        return [one for one in self.shared if getattr(one, "jac", None) is not None]


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--data", help="a folder of the course's csv files; else the generated tasks")
    given.add_argument("--turns", type=int, default=20)
    given.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    given.add_argument("--memory-of", help=argparse.SUPPRESS)
    options = given.parse_args()
    setup = three_tasks(options.data)
    ways = Ways(setup)
    rivals = ways.all()
    if options.memory_of:  # a process for each way: what one of them leaves behind must not help the next
        rivals[options.memory_of](0)
        setup.backward.tables.forget()  # what is kept from step to step counts as well
        print(peak_memory(rivals[options.memory_of]))
        return
    taken = time_in_turns(rivals, options.turns)
    words = [sys.executable, __file__, *(["--data", options.data] if options.data else []), "--memory-of"]
    peaks = {
        name: float(subprocess.run([*words, name], capture_output=True, text=True, check=True).stdout)
        for name in rivals
    }
    copy = sum(4 * one.numel() for one in ways.shared) / 1e6
    tokens = "SST-5, Quora, STS" if options.data else "generated tasks"
    lines = [
        f"{machine()}; {tokens}, batch 16 each, {options.turns} turns; medians of ratios, quartiles in brackets.",
        f"Memory is the most that a step takes on top of weights and optimizer; a copy of the shared gradient is "
        f"{copy:.0f} MB.",
        "",
        "| a step of | time ÷ sum | time ÷ sum, task by task | memory (MB) | copies more than sum |",
        "|---|---|---|---|---|",
    ]
    for name in rivals:
        more = (peaks[name] - peaks["sum"]) / copy
        first, second = ratio(taken, name, "sum"), ratio(taken, name, "sum, task by task")
        lines.append(f"| {name} | {first} | {second} | {peaks[name]:.0f} | {more:+.1f} |")
    print("\n".join(lines))
    if options.write:
        write_block("combine data" if options.data else "combine", lines)


if __name__ == "__main__":
    main()
