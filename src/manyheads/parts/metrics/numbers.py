"""Metrics of numbers. p: predicted value, y: label, both in the labels' units."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manyheads.parts.metrics.base import NUMBER, metric
from manyheads.registry import Positive

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


def correlation(form: str, one: np.ndarray, other: np.ndarray) -> float:
    """scipy's correlation of that name; NaN, not an error, for a single example."""
    from scipy import stats

    return float(getattr(stats, form)(one, other)[0]) if len(one) > 1 else float("nan")


@metric("pearson", label_types=NUMBER, best="high", scale="correlation", paper="all")
def pearson(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Pearson's correlation: how near to a rising line predictions and labels lie.

    Σ(p − p̄)(y − ȳ) / √(Σ(p − p̄)²·Σ(y − ȳ)²), with p̄ and ȳ the means.
    Undefined where either is constant.
    """
    return correlation("pearsonr", predicted, labels)


@metric("spearman", label_types=NUMBER, best="high", scale="correlation")
def spearman(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Spearman's correlation: whether predictions and labels have the same order.

    Pearson's correlation of the ranks of p and y.
    Undefined where either is constant.
    """
    return correlation("spearmanr", predicted, labels)


@metric("mse", label_types=NUMBER, best="low", scale="error", paper="D")
def mse(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Mean squared error, (p − y)², in the labels' units squared."""
    from sklearn.metrics import mean_squared_error

    return float(mean_squared_error(labels, predicted))


@metric("unit-mse", label_types=NUMBER, best="low", scale="error", paper="D")
def unit_mse(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Mean squared error with labels brought to 0 to 1, ((p − y)/(high − low))².

    high and low: as in `within`. Paper D's STS error of .028 is of this scale; on STS's own, from 0 to 5, it is .7.
    """
    low, high = _bounds(labels, task)
    return float(np.mean(((predicted - labels) / (high - low)) ** 2))


@metric("mae", label_types=NUMBER, best="low", scale="error")
def mae(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Mean absolute error, |p − y|, in the labels' units."""
    from sklearn.metrics import mean_absolute_error

    return float(mean_absolute_error(labels, predicted))


@metric("within", label_types=NUMBER, best="high", scale="share", paper="D")
def within(predicted: np.ndarray, labels: np.ndarray, task: Task, *, tolerance: Positive = 0.2) -> float:
    """Share of predictions that are near enough: |p − y| ≤ t·(high − low).

    t: `tolerance`; high and low: the largest and smallest label that the task can have, or, where that is not known,
    those found here.
    """
    low, high = _bounds(labels, task)
    return float((np.abs(predicted - labels) <= tolerance * (high - low)).mean())


def _bounds(labels: np.ndarray, task: Task) -> tuple[float, float]:
    return task.bounds or (float(labels.min()), float(labels.max()))
