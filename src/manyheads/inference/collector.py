"""Predictions come pass by pass, in no order; a collector brings them back into the order of the rows."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from manyheads.storage.ragged import Column, Ragged
from manyheads.tasks.task import Task


class Collector(Protocol):
    """Takes the predictions of some examples at a time, and gives those of all."""

    def add(self, positions: list[int], predictions: np.ndarray, words: list[int] | None = None) -> None:
        """`words`: how many predictions each example has, where that is not one."""
        ...

    def result(self) -> Column: ...


class ArrayCollector:
    """One row of an array per example, all of one shape."""

    def __init__(self, examples: int) -> None:
        self.examples = examples
        self.array: np.ndarray | None = None

    def add(self, positions: list[int], predictions: np.ndarray, words: list[int] | None = None) -> None:
        if self.array is None:
            self.array = np.empty((self.examples, *predictions.shape[1:]), dtype=predictions.dtype)
        self.array[positions] = predictions

    def result(self) -> np.ndarray:
        return np.empty(0) if self.array is None else self.array


class WordCollector:
    """As many predictions per example as it has words."""

    def __init__(self, examples: int) -> None:
        self.rows: list[np.ndarray] = [np.empty(0)] * examples
        self.dtype: np.dtype | None = None

    def add(self, positions: list[int], predictions: np.ndarray, words: list[int] | None = None) -> None:
        assert words is not None
        self.dtype = predictions.dtype
        for position, row in zip(positions, np.split(predictions, np.cumsum(words)[:-1]), strict=True):
            self.rows[position] = row

    def result(self) -> Ragged:
        return Ragged.from_rows(self.rows, self.dtype)


def make_collector(task: Task, examples: int) -> Collector:
    return WordCollector(examples) if task.kind.ragged else ArrayCollector(examples)
