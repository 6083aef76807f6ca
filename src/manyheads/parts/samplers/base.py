"""Rounds: which examples of which tasks come when."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Protocol

import numpy as np

from manyheads.data.source_visits import SourceVisits
from manyheads.seeding import generator


@dataclass(frozen=True)
class Batch:
    """Some examples of one task."""

    task: str
    indices: np.ndarray  # [examples] into the task's training data


@dataclass(frozen=True)
class SamplerInput:
    """What a sampler draws from, and for how long."""

    sizes: dict[str, int]  # examples of one pass over each task: its rows, each as often as its source's weight says
    batch_sizes: dict[str, int]
    seed: int
    epochs: int = 1
    row_groups: dict[str, str | None] = field(default_factory=dict)  # tasks that read the same rows have one name here
    round_size: int = 16  # examples of a round, for samplers that mix tasks in it
    examples: int | None = None  # of the whole training, where the recipe has such a budget
    whole_batch: frozenset[str] = frozenset()  # tasks whose loss compares the examples of a batch
    visits: dict[str, SourceVisits] = field(default_factory=dict)  # of tasks whose sources have weights

    def batches(self, task: str) -> int:
        """Of one pass over a task; the last may be short."""
        return -(-self.sizes[task] // self.batch_sizes[task])

    def unit(self, task: str) -> int:
        """How many examples of a task must stay together."""
        return min(self.batch_sizes[task], self.sizes[task]) if task in self.whole_batch else 1

    def rows_name(self, task: str) -> str:
        """By which the draws of a task's rows are seeded: that of its rows, where other tasks read them too."""
        return self.row_groups.get(task) or task

    def rows_at(self, task: str, number_of_pass: int, places: np.ndarray) -> np.ndarray:
        """The rows at some places of a pass: the same numbers, unless the task's sources have weights."""
        if task not in self.visits:
            return places
        return self.visits[task].rows_of_pass(number_of_pass, self.seed, self.rows_name(task))[places]

    def pass_order(self, task: str, number_of_pass: int) -> np.ndarray:
        """[size] the rows of one pass over a task, in a random order."""
        rng = generator(self.seed, "order", self.rows_name(task), number_of_pass)
        return self.rows_at(task, number_of_pass, rng.permutation(self.sizes[task]))

    def same_rows(self, task: str, other: str) -> bool:
        """Whether two tasks read the same rows."""
        return self.row_groups.get(task) is not None and self.row_groups.get(task) == self.row_groups.get(other)

    @property
    def largest(self) -> str:
        """The task with most batches; of equal ones the first."""
        return max(self.sizes, key=self.batches)


class Sampler(Protocol):
    """SamplerInput → the round at any index. Pure: resuming is starting there."""

    epochs: Sequence[int]  # how many rounds each epoch has
    epoch_description: str  # what an epoch is, in one sentence
    deals_examples: bool  # whether its rounds mix tasks by their shares of the budget's examples

    def round(self, index: int) -> list[Batch]:
        """The batches of a round, at most one per task; rounds are numbered through all epochs."""
        ...

    def state(self, epoch: int) -> dict[str, float]:
        """What changes from epoch to epoch, for the log."""
        ...


@dataclass(frozen=True)
class PassEnd:
    """A pass over one task alone is over. Samplers that take one task after the other list theirs in `pass_ends`."""

    rounds: int  # after so many, counted through all epochs
    task: str


class Epochs:
    """What most samplers share: finding a round's epoch."""

    epochs: Sequence[int]
    pass_ends: Sequence[PassEnd] = ()
    deals_examples = False

    def location(self, index: int) -> tuple[int, int]:
        """(epoch, round within it) of a round."""
        epoch = bisect_right(self._ends, index)
        return epoch, index - (self._ends[epoch - 1] if epoch else 0)

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(self.epochs))

    def state(self, epoch: int) -> dict[str, float]:
        return {}


class Passes:
    """One task's endless batches: pass after pass over its examples, each in a fresh random order.

    Tasks that read the same rows draw them in the same order.
    """

    def __init__(self, sampler_input: SamplerInput, task: str, batch_size: int | None = None) -> None:
        self.sampler_input, self.task = sampler_input, task
        self.batch_size = batch_size or sampler_input.batch_sizes[task]
        self.batches = -(-sampler_input.sizes[task] // self.batch_size)  # per pass; the last may be short
        self._pass = -1
        self._order = np.empty(0, dtype=np.int64)

    def batch(self, number: int) -> Batch:
        number_of_pass, location = divmod(number, self.batches)
        if number_of_pass != self._pass:  # one permutation at a time is kept
            self._order = self.sampler_input.pass_order(self.task, number_of_pass)
            self._pass = number_of_pass
        return Batch(self.task, self._order[location * self.batch_size : (location + 1) * self.batch_size])


def check_order(order: list[str] | None, tasks: Sequence[str]) -> list[str]:
    """The order of tasks that a recipe asks for: each of them once."""
    if order is None:
        return list(tasks)
    if sorted(order) != sorted(tasks):
        raise ValueError(f"'order' names each task once: {', '.join(tasks)}; found {', '.join(order)}")
    return order
