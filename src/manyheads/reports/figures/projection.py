"""Examples in two dimensions, coloured by label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.reports.figures.panels import legend_below, single_panel
from manyheads.reports.figures.predictions import largest_classes
from manyheads.reports.figures.style import FAINT, colour, shorten
from manyheads.reports.task_predictions import TaskPredictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_projection(predictions: TaskPredictions, pca: Mapping[str, Any], most_points: int) -> Figure | None:
    """A task's dev examples by the first two principal components of their embeddings."""
    points = np.array(pca["points"], dtype=float).reshape(-1, 2)
    labels = np.array(pca["labels"])
    if not len(points):
        return None
    rows = np.linspace(0, len(points) - 1, min(most_points, len(points))).astype(int)
    points, labels = points[rows], labels[rows]
    figure, axes = single_panel(height=3.0)
    if predictions.is_regression:
        image = axes.scatter(points[:, 0], points[:, 1], c=labels, cmap="viridis", s=9, linewidths=0)
        figure.colorbar(image, ax=axes, label="label")
    else:
        draw_classes(axes, predictions, points, labels)
    first_share, second_share = pca["explained"]
    axes.set_xlabel(f"first component, {first_share:.0%} of the variance")
    axes.set_ylabel(f"second, {second_share:.0%}")
    axes.set_xticks([])
    axes.set_yticks([])
    if not predictions.is_regression:
        legend_below(figure)
    return figure


def draw_classes(axes: Axes, predictions: TaskPredictions, points: np.ndarray, labels: np.ndarray) -> None:
    """The largest classes in colours, all others in grey."""
    coloured_classes = largest_classes(predictions)
    small_classes = points[~np.isin(labels, coloured_classes)]
    if len(small_classes):
        first, second = small_classes.T
        axes.plot(first, second, "o", markersize=2, markeredgewidth=0, alpha=0.5, color=FAINT, label="others")
    for number, class_index in enumerate(coloured_classes):
        label = shorten(predictions.class_names[class_index])
        first, second = points[labels == class_index].T
        axes.plot(first, second, "o", markersize=3, markeredgewidth=0, alpha=0.75, color=colour(number), label=label)
