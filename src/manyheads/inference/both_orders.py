"""Predictions for pairs that have no order: the mean over both."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from torch import Tensor

from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.tasks.task import Task
from manyheads.tokens.packing import Sequence, merge_equal

Predictions = TypeVar("Predictions", np.ndarray, Tensor)
COUNTED_PAIRS = 1_000  # of a split, to say what both orders cost


def mean_over_orders(task: Task, predictions: Predictions) -> Predictions:
    """p(a, b) = p(b, a) = ½·(p₁(a, b) + p₁(b, a)), p₁: what the model says of one order.

    Of a task with `both_orders` the rows are p₁(a, b), p₁(b, a) of one pair after the other: probabilities, or values
    on the scale of the loss. Calibration and decoding come afterwards. Of any other task they stay as they are.
    """
    if not task.both_orders:
        return predictions
    return (predictions[0::2] + predictions[1::2]) / 2


def relative_cost(model: ManyHeads, tokens: TaskTokens) -> float:
    """How many times the tokens of one order both orders have; what is equal in both is encoded once."""
    both: list[Sequence] = []
    once: list[Sequence] = []
    for row in range(min(len(tokens), COUNTED_PAIRS)):
        both += merge_equal(tokens.inputs_to_predict(model, row), everywhere=True)[0]
        once += merge_equal(tokens.inputs(model, row), everywhere=True)[0]
    return _token_count(both) / max(1, _token_count(once))


def _token_count(sequences: list[Sequence]) -> int:
    return sum(len(sequence.ids) for sequence in sequences)
