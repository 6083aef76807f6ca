"""Rounds: which examples of which tasks come when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from manyheads.seeding import generator


@dataclass(frozen=True)
class Batch:
    """Some examples of one task."""

    task: str
    rows: np.ndarray  # [examples] indices into the task's training data


class Sampler(Protocol):
    """(sizes, batch sizes, seed, names of rows that tasks share) → the round at any index. Pure: resuming is starting
    there."""

    def rounds(self, epoch: int) -> int:
        """How many rounds an epoch has."""
        ...

    def round(self, index: int) -> list[Batch]:
        """The batches of a round, at most one per task; rounds are numbered through all epochs."""
        ...


class Passes:
    """One task's endless batches: pass after pass over its examples, each in a fresh random order.

    `rows` names the rows that it draws from: tasks that read the same rows draw them in the same order.
    """

    def __init__(self, task: str, size: int, batch_size: int, seed: int, rows: str | None = None) -> None:
        self.task, self.size, self.batch_size, self.seed = task, size, batch_size, seed
        self.rows = rows or task
        self.batches = -(-size // batch_size)  # per pass; the last may be short
        self._pass = -1
        self._order = np.empty(0, dtype=np.int64)

    def batch(self, index: int) -> Batch:
        number, place = divmod(index, self.batches)
        if number != self._pass:
            self._order = generator(self.seed, "order", self.rows, number).permutation(self.size)
            self._pass = number
        return Batch(self.task, self._order[place * self.batch_size : (place + 1) * self.batch_size])
