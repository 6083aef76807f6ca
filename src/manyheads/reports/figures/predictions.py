"""Figures of what a run answers on dev: classes, numbers, and where embeddings lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manyheads.reports.facts import TaskPredictions
from manyheads.reports.figures.style import COLOURS, FAINT, colour, short
from manyheads.reports.figures.training import legend_below, side_by_side

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 10  # of calibration
WRITTEN = 10  # classes, up to which a confusion matrix has room for numbers
SHOWN = 2000  # points of a scatter at the most: more would only make the page larger


# --- classes ----------------------------------------------------------------------------------------------------


def confusion(one: TaskPredictions) -> Figure:
    """Counts by true and guessed class, and beneath each its share of the true class."""
    names = [short(name) for name in one.task.labels.names]
    counts = confusion_counts(one)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure, axes = side_by_side(height=1.2 + 0.5 * min(max(len(names), 3), 8))
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), count in np.ndenumerate(counts) if len(names) <= WRITTEN else ():
        share = shares[row, column]
        axes.text(
            *(column, row, f"{count:.0f}\n{share:.2f}".replace("0.", ".")),
            ha="center",
            va="center",
            fontsize=9,
            color="#ffffff" if share > 0.55 else "#1d2733",
        )
    if len(names) <= WRITTEN:
        flat = max(map(len, names)) * len(names) < 40  # there is room for all of them in a row
        axes.set_xticks(range(len(names)), names, rotation=0 if flat else 30, ha="center" if flat else "right")
        axes.set_yticks(range(len(names)), names)
    axes.grid(visible=False)
    _labelled(axes, "", "guessed", "true")
    return figure


def largest_classes(one: TaskPredictions) -> list[int]:
    """As many classes as there are colours: those with the most examples, in their own order."""
    true = one.labels.sum(axis=0) if one.labels.ndim == 2 else confusion_counts(one).sum(axis=1)
    return sorted(np.argsort(-true, kind="stable")[: len(COLOURS)].tolist())


def confusion_counts(one: TaskPredictions) -> np.ndarray:
    size = len(one.task.labels.names)
    counts = np.zeros((size, size))
    np.add.at(counts, (one.labels, one.guesses), 1)
    return counts


def curves(one: TaskPredictions) -> Figure | None:
    """ROC and precision against recall of each class; of two classes those of the second, of many the largest."""
    from sklearn.metrics import precision_recall_curve, roc_curve

    names = one.task.labels.names
    classes = [1] if len(names) == 2 and one.labels.ndim == 1 else largest_classes(one)
    figure, (left, right) = side_by_side(2)
    drawn = 0
    for index in classes:
        wanted = one.labels[:, index] if one.labels.ndim == 2 else (one.labels == index).astype(int)
        if not 0 < wanted.sum() < len(wanted):
            continue  # a curve of one class alone is none
        chances = one.predictions[:, index]
        false, true, _ = roc_curve(wanted, chances)
        precision, recall, _ = precision_recall_curve(wanted, chances)
        left.plot(*_few(false, true), color=colour(drawn), label=short(names[index]))
        right.plot(*_few(recall, precision), color=colour(drawn), label=short(names[index]))
        drawn += 1
    if not drawn:
        return None
    left.plot([0, 1], [0, 1], ":", color=FAINT)
    _labelled(left, "ROC", "false positives", "true positives")
    _labelled(right, "precision and recall", "recall", "precision")
    legend_below(figure)
    return figure


def calibration(one: TaskPredictions) -> Figure:
    """How often answers of a given confidence are right; on the line they are as good as they think."""
    if one.task.kind == "multi-label":
        confidence, right = one.predictions.ravel(), one.labels.ravel().astype(float)
    else:
        confidence, right = one.predictions.max(axis=1), (one.guesses == one.labels).astype(float)
    edges = np.linspace(0, 1, BINS + 1)
    location = np.clip(np.digitize(confidence, edges) - 1, 0, BINS - 1)
    figure, (left, right_axes) = side_by_side(2)
    points = [
        (confidence[location == i].mean(), right[location == i].mean(), (location == i).sum())
        for i in range(BINS)
        if (location == i).any()
    ]
    x, y, sizes = (np.array(some) for some in zip(*points, strict=True))
    left.plot([0, 1], [0, 1], ":", color=FAINT)
    error = 1.96 * np.sqrt(np.maximum(y * (1 - y), 0.25 / sizes) / sizes)
    left.errorbar(x, y, yerr=error, fmt="o-", markersize=4, capsize=2)
    left.set_ylim(-0.02, 1.02)
    _labelled(left, "calibration", "confidence", "share right")
    right_axes.hist(confidence, bins=edges, color=colour(0))
    _labelled(right_axes, "confidence", "confidence", "examples")
    return figure


def ordinal_errors(one: TaskPredictions) -> Figure:
    """By how many classes guesses are off."""
    figure, axes = side_by_side(0, height=2.4)
    size = len(one.task.labels.names)
    off = one.guesses - one.labels
    values = np.arange(-size + 1, size)
    axes.bar(values, [(off == value).sum() for value in values], color=[colour(1 if value else 2) for value in values])
    axes.set_xticks(values)
    _labelled(axes, "", "classes too low or too high", "examples")
    return figure


# --- numbers ----------------------------------------------------------------------------------------------------


def predicted_against_true(one: TaskPredictions) -> Figure:
    """A point per example."""
    figure, scatter = side_by_side(height=3.2)
    rows = np.linspace(0, len(one.labels) - 1, min(SHOWN, len(one.labels))).astype(int)
    scatter.plot(one.labels[rows], one.predictions[rows], "o", markersize=2.5, alpha=0.35, markeredgewidth=0)
    low, high = float(one.labels.min()), float(one.labels.max())
    scatter.plot([low, high], [low, high], ":", color=FAINT)
    _labelled(scatter, "", "true", "predicted")
    return figure


def error_distributions(one: TaskPredictions) -> Figure:
    """How far off answers are, and how true and predicted values are distributed."""
    figure, (errors, both) = side_by_side(2)
    low, high = float(one.labels.min()), float(one.labels.max())
    errors.hist(one.predictions - one.labels, bins=30, color=colour(1))
    errors.axvline(0, color=FAINT, linestyle=":")
    _labelled(errors, "errors", "predicted − true", "examples")
    edges = np.linspace(min(low, one.predictions.min()), max(high, one.predictions.max()), 25)
    both.hist(one.labels, bins=edges, histtype="step", label="true", linewidth=1.5, color=FAINT)
    both.hist(one.predictions, bins=edges, histtype="step", label="predicted", linewidth=1.5, color=colour(0))
    _labelled(both, "distributions", "value", "")
    both.legend(loc="upper left", handlelength=1.2)
    return figure


# --- shared -----------------------------------------------------------------------------------------------------


def _few(x: np.ndarray, y: np.ndarray, most: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rows = np.unique(np.linspace(0, len(x) - 1, min(len(x), most)).astype(int))
    return x[rows], y[rows]


def _labelled(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
