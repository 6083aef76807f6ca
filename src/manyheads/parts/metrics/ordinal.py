"""Metrics of classes in order: a prediction far from the label is worse than one beside it.

g: index of the most likely class, y: index of the right one. They also fit a classification whose classes happen to be
in order, such as one to five stars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manyheads.parts.metrics.base import ONE_CLASS, metric
from manyheads.parts.metrics.classes import predicted_classes
from manyheads.parts.metrics.numbers import correlation

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@metric("kappa", label_types=ONE_CLASS, best="high", scale="correlation")
def kappa(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Cohen's kappa with quadratic weights: 1 − Σ(g − y)² / E Σ(g − y)².

    E is the expectation if predictions were dealt out to the examples at random: 1 is perfect, 0 no better than chance.
    Undefined where all labels and predictions are of one class.
    """
    from sklearn.metrics import cohen_kappa_score

    every = np.arange(len(task.labels.names))
    return float(cohen_kappa_score(labels, predicted_classes(predicted, task), labels=every, weights="quadratic"))


@metric("class-mse", label_types=ONE_CLASS, best="low", scale="error", paper="D")
def class_mse(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Mean squared distance between predicted and true class, (g − y)²."""
    from sklearn.metrics import mean_squared_error

    return float(mean_squared_error(labels, predicted_classes(predicted, task)))


@metric("class-mae", label_types=ONE_CLASS, best="low", scale="error")
def class_mae(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Mean distance between predicted and true class, |g − y|."""
    from sklearn.metrics import mean_absolute_error

    return float(mean_absolute_error(labels, predicted_classes(predicted, task)))


@metric("off-by-two", label_types=ONE_CLASS, best="low", scale="share", paper="D")
def off_by_two(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Share of predictions that are two classes off or more, |g − y| ≥ 2."""
    return float((np.abs(predicted_classes(predicted, task) - labels) >= 2).mean())


@metric("class-pearson", label_types=ONE_CLASS, best="high", scale="correlation", paper="D")
def class_pearson(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Pearson's correlation of predicted and true class, g and y."""
    return correlation("pearsonr", predicted_classes(predicted, task), labels)
