"""A metric on dev examples drawn again and again with replacement: the same draws for all that is compared."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from manyheads.parts.metrics import score
from manyheads.seeding import generator
from manyheads.studies.columns import measured_by
from manyheads.studies.statistics import DRAWS
from manyheads.tasks.kind import Labels, Predictions
from manyheads.tasks.task import Task

SLOW_DRAWS = 200  # of metrics that are computed draw by draw


@lru_cache(maxsize=16)
def draw_counts(dev: str, examples: int) -> np.ndarray:
    """[draws, examples] how often each example of a dev set is drawn; equal for all runs."""
    rng = generator(0, "bootstrap", dev)
    counts = np.empty((DRAWS, examples), dtype=np.float32)
    for draw in counts:
        draw[:] = np.bincount(rng.integers(examples, size=examples), minlength=examples)
    return counts


def drawn_metric(task: Task, metric: str, predictions: Predictions, labels: Labels, dev: str) -> np.ndarray:
    """[draws] a metric of a task, by its key in `score`; undefined values are NaN."""
    counts = draw_counts(dev, len(labels))
    if metric == "accuracy" and isinstance(labels, np.ndarray) and labels.ndim == 1:
        correct = (predictions.argmax(axis=1) == labels).astype(np.float32)
        return (counts @ correct).astype(np.float64) / len(labels)
    if metric == "pearson" and isinstance(labels, np.ndarray):
        return _correlations(counts.astype(np.float64), predictions.astype(np.float64), labels.astype(np.float64))
    measured_task = measured_by(task, metric)
    drawn = np.empty(SLOW_DRAWS)
    for draw_index, draw in enumerate(counts[:SLOW_DRAWS]):
        examples = np.repeat(np.arange(len(labels)), draw.astype(np.int64))
        value = score(measured_task, predictions[examples], labels[examples])[metric]
        if value is None:
            value = math.nan
        drawn[draw_index] = value
    # the remaining draws repeat these: their variance is the same, and all metrics have draws of one length
    return np.resize(drawn, DRAWS)


def _correlations(counts: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Pearson's r on every draw: moments weighted by how often each example is drawn."""
    n = counts.sum(axis=1)
    x, y = x - x.mean(), y - y.mean()  # squares of small differences are lost beside large means
    mean_x, mean_y = counts @ x / n, counts @ y / n
    covariance = counts @ (x * y) / n - mean_x * mean_y
    spread = (counts @ (x * x) / n - mean_x**2) * (counts @ (y * y) / n - mean_y**2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return covariance / np.sqrt(spread)
