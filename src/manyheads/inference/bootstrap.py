"""A metric on examples drawn again and again with replacement: the same draws for all that is compared."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice

import numpy as np

from manyheads.parts.metrics import measured_by, metric_name, score
from manyheads.parts.metrics.answers import answer_values
from manyheads.seeding import generator
from manyheads.tasks.kind import Labels, Predictions
from manyheads.tasks.task import Task

DRAWS = 1000
SLOW_DRAWS = 200  # of metrics that are computed draw by draw
LARGEST_TABLE = 2**25  # counts that are in memory at once, 4 bytes each


@lru_cache(maxsize=16)
def draw_counts(dev: str, examples: int) -> np.ndarray:
    """[draws, examples] how often each example of a dev set is drawn; equal for all runs."""
    return _draw(generator(0, "bootstrap", dev), DRAWS, examples)


def _draw(rng: np.random.Generator, draws: int, examples: int) -> np.ndarray:
    counts = np.empty((draws, examples), dtype=np.float32)
    for draw in counts:
        draw[:] = np.bincount(rng.integers(examples, size=examples), minlength=examples)
    return counts


def _blocks_of_counts(dev: str, examples: int) -> Iterator[np.ndarray]:
    """The rows of `draw_counts`, some at a time where all of them would fill the memory."""
    draws_per_block = max(1, LARGEST_TABLE // examples)
    if draws_per_block >= DRAWS:
        yield draw_counts(dev, examples)
        return
    rng = generator(0, "bootstrap", dev)
    for first in range(0, DRAWS, draws_per_block):
        yield _draw(rng, min(draws_per_block, DRAWS - first), examples)


def drawn_metric(task: Task, metric: str, predictions: Predictions, labels: Labels, dev: str) -> np.ndarray:
    """[draws] a metric of a task, by its key in `score`; undefined values are NaN."""
    return drawn_metrics(measured_by(task, metric), [metric], predictions, labels, dev)[metric]


def drawn_metrics(
    task: Task, metrics: Sequence[str], predictions: Predictions, labels: Labels, dev: str
) -> dict[str, np.ndarray]:
    """The same of several of the task's metrics."""
    drawn: dict[str, np.ndarray] = {}
    slow: list[str] = []
    for metric in metrics:
        if metric == "accuracy" and isinstance(labels, np.ndarray) and labels.ndim == 1:
            drawn[metric] = _accuracies(task.kind.decode(predictions, task), labels, dev)
        elif metric == "pearson" and isinstance(labels, np.ndarray):
            drawn[metric] = _correlations(predictions.astype(np.float64), labels.astype(np.float64), dev)
        elif metric in ("macro-f1", "micro-f1") and isinstance(labels, np.ndarray):
            drawn[metric] = _f1_scores(task, metric, predictions, labels, dev)
        elif metric in ("answer-f1", "answer-exact-match"):
            values = answer_values(metric, predictions, labels, task).astype(np.float32)
            sums = [counts @ values for counts in _blocks_of_counts(dev, len(values))]
            drawn[metric] = np.concatenate(sums).astype(np.float64) / len(values)
        else:
            slow.append(metric)
    if slow:
        drawn |= _draw_by_draw(task, slow, predictions, labels, dev)
    return {metric: drawn[metric] for metric in metrics}


def _accuracies(predicted: np.ndarray, labels: np.ndarray, dev: str) -> np.ndarray:
    """Of class indices, or of the numbers of candidates."""
    correct = (predicted == labels).astype(np.float32)
    sums = [counts @ correct for counts in _blocks_of_counts(dev, len(labels))]
    return np.concatenate(sums).astype(np.float64) / len(labels)


def _correlations(x: np.ndarray, y: np.ndarray, dev: str) -> np.ndarray:
    """Pearson's r on every draw: moments weighted by how often each example is drawn."""
    x, y = x - x.mean(), y - y.mean()  # squares of small differences are lost beside large means
    correlations: list[np.ndarray] = []
    for block in _blocks_of_counts(dev, len(y)):
        counts = block.astype(np.float64)
        n = counts.sum(axis=1)
        mean_x, mean_y = counts @ x / n, counts @ y / n
        covariance = counts @ (x * y) / n - mean_x * mean_y
        spread = (counts @ (x * x) / n - mean_x**2) * (counts @ (y * y) / n - mean_y**2)
        with np.errstate(invalid="ignore", divide="ignore"):
            correlations.append(covariance / np.sqrt(spread))
    return np.concatenate(correlations)


def _f1_scores(task: Task, metric: str, predictions: np.ndarray, labels: np.ndarray, dev: str) -> np.ndarray:
    """F1 = 2·tp / (2·tp + fp + fn) of every class on every draw, then their mean; or of all classes together."""
    truth = _class_matrix(labels, len(task.labels.names))
    predicted = _class_matrix(task.kind.decode(predictions, task), len(task.labels.names))
    scores: list[np.ndarray] = []
    for counts in _blocks_of_counts(dev, len(labels)):  # float32 counts to 2²⁴, which is more than a draw holds
        hits = (counts @ (truth * predicted)).astype(np.float64)  # [draws, classes]
        totals = (counts @ (truth + predicted)).astype(np.float64)  # 2·tp + fp + fn
        if metric == "micro-f1":
            hits, totals = hits.sum(axis=1, keepdims=True), totals.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a draw without any class is undefined
            scores.append(np.nanmean(2 * hits / totals, axis=1))  # a class that is nowhere counts neither way
    return np.concatenate(scores)


def _class_matrix(classes: np.ndarray, class_count: int) -> np.ndarray:
    """[examples, classes] 0 and 1, from class indices or from such a matrix."""
    if classes.ndim == 2:
        return classes.astype(np.float32)
    return np.eye(class_count, dtype=np.float32)[classes]


def _draw_by_draw(
    task: Task, metrics: Sequence[str], predictions: Predictions, labels: Labels, dev: str
) -> dict[str, np.ndarray]:
    names = {metric_name(metric) for metric in metrics}
    measured_task = replace(task, metrics=tuple(metric for metric in task.metrics if metric.name in names))
    drawn = {metric: np.full(SLOW_DRAWS, math.nan) for metric in metrics}
    draws = chain.from_iterable(_blocks_of_counts(dev, len(labels)))
    for draw_index, draw in enumerate(islice(draws, SLOW_DRAWS)):
        examples = np.repeat(np.arange(len(labels)), draw.astype(np.int64))
        scores = score(measured_task, predictions[examples], labels[examples])
        for metric, values in drawn.items():
            value = scores[metric]
            if value is not None:
                values[draw_index] = value
    # the remaining draws repeat these: their variance is the same, and all metrics have draws of one length
    return {metric: np.resize(values, DRAWS) for metric, values in drawn.items()}
