"""How fast three tasks are trained, beside what a user would pick instead: in turns, on the same examples.

    python benchmarks/train.py [--data FOLDER] [--turns N] [--steps N] [--write]

Default encoder, float32, batch 16 of every task per optimizer step. With --data the tasks are SST-5, Quora pairs and
STS, else the generated demonstration tasks. A turn trains every rival on the same stretch of steps; ratios are taken
within a turn. --write puts the tables into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import floor
from apart import Apart
from manyheads.console import Reporter
from manyheads.encoder.bert import Bert
from manyheads.tasks.resolve import load_recipe
from manyheads.training.schedule import set_trainable
from manyheads.training.setup import assemble
from manyheads.training.trainer import Trainer
from side_by_side import machine, write_block
from training_rivals import CrossEncoderRival, Example, Plan, StarterLoop, Steps, TrainerRival

AIMS = {
    "transformers Trainer": "2.5",
    "transformers Trainer, grouped by length": "1.4",
    "sentence-transformers CrossEncoderTrainer": "2.5",
    "plain padded loop": "2.5",
    "floor": "0.70",
}


class Ours:
    """manyheads' own loop: the sampler, inputs, packing, forward, backward, clipping, AdamW, the log."""

    def __init__(self, data: str | None, pairs_only: bool, folder: str) -> None:
        source, root = ("best", {"data.root": data}) if data else ("demo", {})
        tasks = ["qqp", "sts"] if data else ["paraphrase", "similarity"]
        changes = {
            **root,
            "output": folder,
            "training.batch_size": 16,
            "training.learning_rate": 1e-6,
            "training.epochs": 50,
            "training.conflicts": 0,  # rivals measure nothing
            "sampler": "batch-round-robin",
            **({"tasks": tasks} if pairs_only else {}),
        }
        self.setup = assemble(load_recipe(source, changes), Reporter(quiet=True))
        self.trainer = Trainer(self.setup, Path(folder) / "run")
        self.trainer.open(overwrite=True)
        set_trainable(self.setup.model, self.setup.schedule.phases[0])

    def __call__(self, stretch: range) -> float:
        began = time.perf_counter()
        for step in stretch:
            self.trainer.progress.step = step
            self.trainer.step(False)
        return time.perf_counter() - began

    def examples(self, stretch: range) -> Steps:
        """The texts and labels of these steps, for the others."""
        found = []
        for step in stretch:
            batches = [batch for one in self.setup.rounds(step) for batch in one]
            found.append([[self._example(batch.task, row) for row in batch.indices.tolist()] for batch in batches])
        return found

    def _example(self, task: str, row: int) -> Example:
        data = self.setup.datasets.train[task]
        assert data.labels is not None
        texts = tuple(column[row].as_py() for column in data.examples.texts)
        return Example(task, texts, float(data.labels[row]))

    def plan(self) -> Plan:
        classes = {name: len(task.labels.names) or 1 for name, task in self.setup.model.tasks.items()}
        return Plan(self.setup.encoder_folder, classes)

    def products(self, stretch: range, whole: bool) -> list[list[floor.Product]]:
        """The products of these steps, pass by pass."""
        encoder, found = self.setup.model.encoder, []
        assert isinstance(encoder, Bert)
        for step in stretch:
            for passing, _ in self.setup.backward._passes(self.setup.rounds(step), None)[""]:
                packed = self.setup.model.pack([(task, inputs) for task, _, inputs in passing])
                found.append(floor.products(encoder, packed.tokens, whole, backward=True))
        return found


def turns_of(
    ours: Ours, rivals: dict[str, Apart], turns: int, steps: int
) -> tuple[dict[str, list[float]], list[float]]:
    """Seconds of everyone in every turn, and operations per second of the floor.

    The first turn, in which everything is warmed up, is not counted.
    """
    taken: dict[str, list[float]] = {name: [] for name in ("manyheads", *rivals, "floor", "floor, whole model")}
    speeds = []
    for one in rivals.values():
        one.wait()
    for turn in range(turns + 1):
        stretch = range(turn * steps, (turn + 1) * steps) if turn else range(2)
        given = ours.examples(stretch)
        found = {"manyheads": ours(stretch), **{name: rival(given) for name, rival in rivals.items()}}
        products = {"floor, whole model": ours.products(stretch, True), "floor": ours.products(stretch, False)}
        for name, some in products.items():
            found[name] = sum(floor.run(one) for one in some)
        if turn:
            speeds.append(sum(floor.operations(one) for one in products["floor"]) / found["floor"])
            for name, seconds in found.items():
                taken[name].append(seconds)
    return taken, speeds


def table(taken: dict[str, list[float]], speeds: list[float], examples: int) -> list[str]:
    """A line for each: how many times as long as ours, and the rate, which is of this machine and moment."""
    lines = ["| | time ÷ manyheads | aim | examples/s |", "|---|---|---|---|"]
    for name, seconds in taken.items():
        ratios = [one / own for one, own in zip(seconds, taken["manyheads"], strict=True)]
        rate = statistics.median(examples / one for one in seconds)
        lines.append(f"| {name} | {spread(ratios)} | {AIMS.get(name, '')} | {rate:.1f} |")
    share = [least / own for least, own in zip(taken["floor"], taken["manyheads"], strict=True)]
    return [
        *lines,
        "",
        f"manyheads runs at {spread([100 * one for one in share], 0)} % of the matrix-product floor, "
        f"which does {spread([one / 1e9 for one in speeds], 0)} GFLOP/s.",
    ]


def spread(values: list[float], digits: int = 2) -> str:
    """Median, and in brackets the quartiles, where there are enough."""
    middle = f"{statistics.median(values):.{digits}f}"
    if len(values) < 3:
        return middle
    low, _, high = statistics.quantiles(values, n=4)
    return f"{middle} ({low:.{digits}f}–{high:.{digits}f})"


def measure(data: str | None, turns: int, steps: int, pairs_only: bool) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(data, pairs_only, folder)
        plan = ours.plan()
        rivals = {
            "transformers Trainer": Apart(TrainerRival, plan, False),
            "transformers Trainer, grouped by length": Apart(TrainerRival, plan, True),
        }
        if pairs_only:
            rivals["sentence-transformers CrossEncoderTrainer"] = Apart(CrossEncoderRival, plan)
        else:
            rivals["plain padded loop"] = Apart(StarterLoop, plan)
        found = table(*turns_of(ours, rivals, turns, steps), steps * 16 * len(plan.tasks))
        for one in rivals.values():
            one.stop()
        return found


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--data", help="a folder of the course's csv files")
    given.add_argument("--turns", type=int, default=6)
    given.add_argument("--steps", type=int, default=8, help="optimizer steps per turn")
    given.add_argument("--only", choices=("mix", "pairs"), help="one of the two tables")
    given.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md; needs --data")
    options = given.parse_args()
    for name, pairs_only in (("mix", False), ("pairs", True)):
        if options.only in (None, name):
            what = "SST-5, Quora, STS" if options.data else "generated tasks"
            what = what if not pairs_only else "Quora and STS" if options.data else "the generated pair tasks"
            head = f"{machine()}; {what}, batch 16 each; {options.turns} turns of {options.steps} steps."
            lines = [head, "", *measure(options.data, options.turns, options.steps, pairs_only)]
            print("\n".join(lines))
            if options.write and options.data:
                write_block(f"train {name}", lines)


if __name__ == "__main__":
    main()
