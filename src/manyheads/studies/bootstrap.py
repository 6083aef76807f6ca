"""A metric on dev examples drawn again and again with replacement: the same draws for all that is compared."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from manyheads.parts.metrics import score
from manyheads.seeding import generator
from manyheads.studies.statistics import DRAWS
from manyheads.tasks.task import Task

SLOW_DRAWS = 200  # of metrics that are computed draw by draw


@lru_cache(maxsize=16)
def draws_of(dev: str, rows: int) -> np.ndarray:
    """[draws, rows] how often each of a dev set's rows is drawn; the same for everyone."""
    picks = generator(0, "bootstrap", dev)
    counts = np.empty((DRAWS, rows), dtype=np.float32)
    for one in counts:
        one[:] = np.bincount(picks.integers(rows, size=rows), minlength=rows)
    return counts


def drawn_metric(task: Task, metric: str, predictions: np.ndarray, labels: np.ndarray, dev: str) -> np.ndarray:
    """[draws] a metric of a task, by its key in `score`; undefined values are NaN."""
    counts = draws_of(dev, len(labels))
    if metric == "accuracy" and labels.ndim == 1:
        return (counts @ (predictions.argmax(axis=1) == labels).astype(np.float32)).astype(np.float64) / len(labels)
    if metric == "pearson":
        return _correlations(counts.astype(np.float64), predictions.astype(np.float64), labels.astype(np.float64))
    wanted = tuple(one for one in task.metrics if metric.startswith(one.name))
    alone = replace(task, metrics=wanted)
    found = np.empty(DRAWS)
    for number, count in enumerate(counts[:SLOW_DRAWS]):
        rows = np.repeat(np.arange(len(labels)), count.astype(np.int64))
        value = score(alone, predictions[rows], labels[rows])[metric]
        found[number] = math.nan if value is None else value
    # the others repeat these: their variance is the same, and all metrics have draws of one length
    return np.resize(found[:SLOW_DRAWS], DRAWS)


def _correlations(counts: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Pearson's r on every draw: moments weighted by how often each row is drawn."""
    n = counts.sum(axis=1)
    x, y = x - x.mean(), y - y.mean()  # squares of small differences are lost beside large means
    mean_x, mean_y = counts @ x / n, counts @ y / n
    covariance = counts @ (x * y) / n - mean_x * mean_y
    spread = (counts @ (x * x) / n - mean_x**2) * (counts @ (y * y) / n - mean_y**2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return covariance / np.sqrt(spread)
