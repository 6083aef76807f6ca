"""Predictions come pass by pass, in no order; a collector brings them back into the order of the rows."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from manyheads.tasks.task import Task


class Collector(Protocol):
    """Takes the predictions of some examples at a time, and gives those of all."""

    def add(self, positions: list[int], predictions: np.ndarray) -> None: ...

    def result(self) -> np.ndarray: ...


class ArrayCollector:
    """One row of an array per example, all of one shape."""

    def __init__(self, examples: int) -> None:
        self.examples = examples
        self.array: np.ndarray | None = None

    def add(self, positions: list[int], predictions: np.ndarray) -> None:
        if self.array is None:
            self.array = np.empty((self.examples, *predictions.shape[1:]), dtype=predictions.dtype)
        self.array[positions] = predictions

    def result(self) -> np.ndarray:
        return np.empty(0) if self.array is None else self.array


def make_collector(task: Task, examples: int) -> Collector:
    """A kind whose predictions are not one rectangle per example, such as a label per word, has its own from here."""
    return ArrayCollector(examples)
