"""Figures of a task's predictions on dev: classes and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.reports.figures.panels import label_axes, legend_below, panel_grid, single_panel
from manyheads.reports.figures.style import COLOURS, FAINT, colour, shorten
from manyheads.reports.task_predictions import TaskPredictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CALIBRATION_BINS = 10
MAX_CLASSES_WRITTEN = 10  # up to which a confusion matrix has room for numbers
LETTERS_IN_ROW = 40  # of class names below a confusion matrix
SCATTER_POINTS = 2000  # more only make the page larger
CURVE_POINTS = 200
DARK, LIGHT = "#1d2733", "#ffffff"


# --- classes ----------------------------------------------------------------------------------------------------


def confusion(predictions: TaskPredictions) -> Figure:
    """Counts by true and predicted class, and below each its share of the true class."""
    names = list(map(shorten, predictions.class_names))
    counts = confusion_counts(predictions)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure, axes = single_panel(height=1.2 + 0.5 * min(max(len(names), 3), 8))
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    if len(names) <= MAX_CLASSES_WRITTEN:
        _write_counts(axes, counts, shares)
        _name_classes(axes, names)
    axes.grid(visible=False)
    label_axes(axes, "", "predicted", "true")
    return figure


def _write_counts(axes: Axes, counts: np.ndarray, shares: np.ndarray) -> None:
    for (row, column), count in np.ndenumerate(counts):
        share = shares[row, column]
        text = f"{count:.0f}\n{share:.2f}".replace("0.", ".")
        ink = LIGHT if share > 0.55 else DARK
        axes.text(column, row, text, ha="center", va="center", fontsize=9, color=ink)


def _name_classes(axes: Axes, names: list[str]) -> None:
    ticks = range(len(names))
    if max(map(len, names)) * len(names) < LETTERS_IN_ROW:
        axes.set_xticks(ticks, names, rotation=0, ha="center")
    else:
        axes.set_xticks(ticks, names, rotation=30, ha="right")
    axes.set_yticks(ticks, names)


def largest_classes(predictions: TaskPredictions) -> list[int]:
    """The classes with the most examples, as many as there are colours, in their own order."""
    examples = [predictions.has_class(index).sum() for index in range(len(predictions.class_names))]
    by_size = np.argsort(-np.array(examples), kind="stable")
    return sorted(by_size[: len(COLOURS)].tolist())


def confusion_counts(predictions: TaskPredictions) -> np.ndarray:
    """[true, predicted] how many examples."""
    size = len(predictions.class_names)
    counts = np.zeros((size, size))
    np.add.at(counts, (predictions.labels, predictions.predicted_labels), 1)
    return counts


def curves(predictions: TaskPredictions) -> Figure | None:
    """ROC and precision against recall of each class; for two classes the second, for many the largest."""
    from sklearn.metrics import precision_recall_curve, roc_curve

    names = predictions.class_names
    classes = largest_classes(predictions)
    if len(names) == 2 and predictions.labels.ndim == 1:
        classes = [1]
    figure, (roc_axes, recall_axes) = panel_grid(2)
    curve_count = 0
    for class_index in classes:
        is_true = predictions.has_class(class_index).astype(int)
        if not 0 < is_true.sum() < len(is_true):
            continue  # examples of one class alone have no curve
        probabilities = predictions.predictions[:, class_index]
        false_positives, true_positives, _ = roc_curve(is_true, probabilities)
        precision, recall, _ = precision_recall_curve(is_true, probabilities)
        style: dict[str, Any] = {"color": colour(curve_count), "label": shorten(names[class_index])}
        roc_axes.plot(*_thin(false_positives, true_positives), **style)
        recall_axes.plot(*_thin(recall, precision), **style)
        curve_count += 1
    if not curve_count:
        return None
    roc_axes.plot([0, 1], [0, 1], ":", color=FAINT)
    label_axes(roc_axes, "ROC", "false positives", "true positives")
    label_axes(recall_axes, "precision and recall", "recall", "precision")
    legend_below(figure)
    return figure


def calibration(predictions: TaskPredictions) -> Figure:
    """How often predictions of a confidence are right; on the line they are right as often as they are confident."""
    if predictions.is_multi_label:
        confidence = predictions.predictions.ravel()
        correct = predictions.labels.ravel().astype(float)
    else:
        confidence = predictions.predictions.max(axis=1)
        correct = (predictions.predicted_labels == predictions.labels).astype(float)
    edges = np.linspace(0, 1, CALIBRATION_BINS + 1)
    bin_of_row = np.clip(np.digitize(confidence, edges) - 1, 0, CALIBRATION_BINS - 1)
    points = []
    for bin_index in np.unique(bin_of_row):
        in_bin = bin_of_row == bin_index
        points.append((confidence[in_bin].mean(), correct[in_bin].mean(), in_bin.sum()))
    mean_confidence, accuracy, sizes = np.array(points).T
    figure, (accuracy_axes, histogram_axes) = panel_grid(2)
    accuracy_axes.plot([0, 1], [0, 1], ":", color=FAINT)
    error = 1.96 * np.sqrt(np.maximum(accuracy * (1 - accuracy), 0.25 / sizes) / sizes)
    accuracy_axes.errorbar(mean_confidence, accuracy, yerr=error, fmt="o-", markersize=4, capsize=2)
    accuracy_axes.set_ylim(-0.02, 1.02)
    label_axes(accuracy_axes, "calibration", "confidence", "share right")
    histogram_axes.hist(confidence, bins=edges.tolist(), color=colour(0))
    label_axes(histogram_axes, "confidence", "confidence", "examples")
    return figure


def ordinal_errors(predictions: TaskPredictions) -> Figure:
    """By how many classes predictions are off."""
    figure, axes = single_panel(height=2.4)
    size = len(predictions.class_names)
    offset = predictions.predicted_labels - predictions.labels
    values = np.arange(-size + 1, size)
    counts = [(offset == value).sum() for value in values]
    axes.bar(values, counts, color=np.where(values == 0, colour(2), colour(1)).tolist())
    axes.set_xticks(values)
    label_axes(axes, "", "classes too low or too high", "examples")
    return figure


# --- numbers ----------------------------------------------------------------------------------------------------


def predicted_against_true(predictions: TaskPredictions, most_points: int = SCATTER_POINTS) -> Figure:
    """A point per example."""
    figure, axes = single_panel(height=3.2)
    labels, predicted = predictions.labels, predictions.predictions
    rows = np.linspace(0, len(labels) - 1, min(most_points, len(labels))).astype(int)
    axes.plot(labels[rows], predicted[rows], "o", markersize=2.5, alpha=0.35, markeredgewidth=0)
    diagonal = [float(labels.min()), float(labels.max())]
    axes.plot(diagonal, diagonal, ":", color=FAINT)
    label_axes(axes, "", "true", "predicted")
    return figure


def error_distributions(predictions: TaskPredictions, absolute: bool = False) -> Figure:
    """The errors, with their sign or without, and the distributions of true and predicted values."""
    figure, (error_axes, value_axes) = panel_grid(2)
    labels, predicted = predictions.labels, predictions.predictions
    if absolute:
        error_axes.hist(np.abs(predicted - labels), bins=30, color=colour(1))
        label_axes(error_axes, "errors", "|predicted − true|", "examples")
    else:
        error_axes.hist(predicted - labels, bins=30, color=colour(1))
        error_axes.axvline(0, color=FAINT, linestyle=":")
        label_axes(error_axes, "errors", "predicted − true", "examples")
    edges = np.linspace(min(labels.min(), predicted.min()), max(labels.max(), predicted.max()), 25)
    value_axes.hist(labels, bins=edges.tolist(), histtype="step", label="true", linewidth=1.5, color=FAINT)
    value_axes.hist(predicted, bins=edges.tolist(), histtype="step", label="predicted", linewidth=1.5, color=colour(0))
    label_axes(value_axes, "distributions", "value", "")
    value_axes.legend(loc="upper left", handlelength=1.2)
    return figure


def _thin(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.unique(np.linspace(0, len(x) - 1, min(len(x), CURVE_POINTS)).astype(int))
    return x[rows], y[rows]
