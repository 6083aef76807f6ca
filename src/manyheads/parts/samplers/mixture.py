"""Rounds that hold examples of all tasks, each in proportion to its share of the budget."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from manyheads.parts.samplers.base import Batch, Epochs, SamplerInput
from manyheads.registry import NotNegative, Positive, register
from manyheads.seeding import generator


def deal_out(total: int, sizes: Mapping[str, int], alpha: float, max_passes: float | None) -> dict[str, int]:
    """How many of `total` examples each task gets: p_i ∝ N_i^α, at most `max_passes`·N_i; what a capped task leaves
    goes to the others in the same proportion. Less than the total where all are capped."""
    dealt: dict[str, float] = {}
    left, open_tasks = float(total), list(sizes)
    while open_tasks:
        logs = alpha * np.log([sizes[task] for task in open_tasks])
        weights = np.exp(logs - logs.max())  # a large α overflows otherwise
        shares = dict(zip(open_tasks, left * weights / weights.sum(), strict=True))
        capped = []
        for task, share in shares.items():
            if max_passes is not None and share > max_passes * sizes[task]:
                capped.append(task)
        if not capped:
            dealt |= shares
            break
        for task in capped:
            dealt[task] = max_passes * sizes[task]  # type: ignore[operator]  # a task is capped only by a number
            left -= dealt[task]
            open_tasks.remove(task)
    return {task: max(1, round(dealt[task])) for task in sizes}


class ExampleStream:
    """One task's endless examples: pass after pass, each in a fresh random order. Tasks of the same rows share it."""

    def __init__(self, sampler_input: SamplerInput, task: str) -> None:
        self.sampler_input, self.task = sampler_input, task
        self.size = sampler_input.sizes[task]
        self._pass = -1
        self._order = np.empty(0, dtype=np.int64)

    def examples(self, first: int, end: int) -> np.ndarray:
        """Those numbered from `first` to before `end`."""
        pieces = []
        while first < end:
            number_of_pass, position = divmod(first, self.size)
            count = min(end - first, self.size - position)
            pieces.append(self._pass_order(number_of_pass)[position : position + count])
            first += count
        return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)

    def _pass_order(self, number: int) -> np.ndarray:
        if number != self._pass:  # one permutation at a time is kept
            self._order = self.sampler_input.pass_order(self.task, number)
            self._pass = number
        return self._order


@register("samplers", "mixture")
class Mixture(Epochs):
    """Every round mixes all tasks: n_i of the budget's E examples are of task i, p_i = n_i/E ∝ N_i^α, spread evenly.

    N_i: examples of task i; α (`alpha`): 1 passes over every task equally often, 0 draws as much of each. A task is
    passed over at most `max_passes` times. A round has training.batch_size examples in all, of task i those numbered
    ⌊r·n_i/R⌋ to ⌊(r + 1)·n_i/R⌋ in round r of R; so a small task is thinned over the whole training, and none ends
    early. A step's loss is the mean over its examples, so that tasks weigh as their shares: its expected gradient is
    Σ p_i·g_i, that of one-task rounds drawn with p. A task whose loss compares the examples of a batch gets
    whole batches of its batch_size, in fewer rounds.
    Relations: `proportional` draws rounds of one task with the same p; `batch-round-robin` takes a batch of every task.
    """

    deals_examples = True

    def __init__(
        self, sampler_input: SamplerInput, *, alpha: NotNegative = 0.5, max_passes: Positive | None = 6.0
    ) -> None:
        total = sampler_input.examples
        if total is None:
            total = sampler_input.epochs * sum(sampler_input.sizes.values())
        self.examples = deal_out(total, sampler_input.sizes, alpha, max_passes)
        self.alpha = alpha
        total = sum(self.examples.values())
        self.rounds = max(sampler_input.epochs, round(total / sampler_input.round_size))
        self.streams = {task: ExampleStream(sampler_input, task) for task in sampler_input.sizes}
        self.units = {task: sampler_input.unit(task) for task in sampler_input.sizes}
        self.offsets: dict[str, int] = {}
        for task in sampler_input.sizes:
            rng = generator(sampler_input.seed, "offset", sampler_input.rows_name(task))
            self.offsets[task] = int(rng.integers(self.rounds * self.units[task]))
        self.batch_sizes = {task: max(1, round(count / self.rounds)) for task, count in self.examples.items()}
        ends = np.linspace(0, self.rounds, sampler_input.epochs + 1).round().astype(int)
        self.epochs = np.diff(ends).tolist()
        self.epoch_description = (
            f"An epoch is {round(total / len(self.epochs)):,} examples of all tasks, mixed in every round."
        )

    def round(self, index: int) -> list[Batch]:
        batches = []
        for task, stream in self.streams.items():
            first, end = self._examples_before(task, index), self._examples_before(task, index + 1)
            if end > first:
                batches.append(Batch(task, stream.examples(first, end)))
        return batches

    def _examples_before(self, task: str, index: int) -> int:
        unit = self.units[task]
        return (index * self.examples[task] + self.offsets[task]) // (self.rounds * unit) * unit

    def state(self, epoch: int) -> dict[str, float]:
        return {"alpha": self.alpha}
