"""Curves of a study over epochs: all rows in one figure, or one row on dev and train; seeds as a band."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from manyheads.reports.figures.panels import legend_below, panel_grid
from manyheads.reports.figures.style import colour, line_style, shorten
from manyheads.reports.study_rows import Curve, StudyRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BANDS = 6  # rows up to which a figure has room for the bands of their seeds
LONG_HANDLE = 2.6  # of a legend that tells lines apart by their dashes
FEW_POINTS = 30  # up to which they are marked

Curves = Mapping[int, Curve | None]  # number of a row → its curve


def compare_rows(rows: list[StudyRow], curves: Curves, train: Curves | None = None, title: str = "") -> Figure | None:
    """A line per row; beside them a panel of the metric on train, where it was measured."""
    drawn = [row for row in rows if curves.get(row.number) is not None]
    if not drawn:
        return None
    panels = {title: curves}
    if train is not None and any(train.values()):
        panels = {f"{title} on dev": curves, f"{title} on train": train}
    figure, all_axes = panel_grid(len(panels), height=2.9)
    for axes, (panel_title, panel_curves) in zip(all_axes, panels.items(), strict=True):
        for row in drawn:
            curve = panel_curves.get(row.number)
            if curve is not None:
                label = f"{row.number} {shorten(row.name, 22)}"
                _draw(axes, curve, line_style(row.number - 1), label, band=len(drawn) <= BANDS)
        axes.set_title(panel_title)
        _label_epochs(axes)
    _share_heights(all_axes)
    legend_below(figure, 2, LONG_HANDLE)
    return figure


def row_progress(row: StudyRow, metrics: Mapping[str, str]) -> Figure | None:
    """Two panels per task, primary metric and loss: on dev, and dashed on train, where that was measured."""
    curves: dict[str, tuple[Curve | None, Curve | None]] = {}  # title → on dev, on train
    for task_name, metric in metrics.items():
        title = shorten(task_name)
        curves[f"{title} {metric}"] = row.metric_curve(task_name), row.metric_curve(task_name, "train")
        curves[f"{title} loss"] = row.loss_curve(task_name), row.loss_curve(task_name, "train_losses")
    measured = {title: pair for title, pair in curves.items() if pair[0] is not None}
    if not measured:
        return None
    figure, panels = panel_grid(len(measured))
    for axes, (title, (dev_curve, train_curve)) in zip(panels, measured.items(), strict=True):
        if dev_curve is not None:
            _draw(axes, dev_curve, {"color": colour(0), "linestyle": "-"}, "dev", band=True)
        if train_curve is not None:
            _draw(axes, train_curve, {"color": colour(1), "linestyle": "--"}, "train", band=True)
        axes.set_title(title)
        _label_epochs(axes)
    legend_below(figure, handle_length=LONG_HANDLE)
    return figure


def _draw(axes: Axes, curve: Curve, style: dict[str, Any], label: str, band: bool) -> None:
    marker = "o" if len(curve.epochs) <= FEW_POINTS else ""
    axes.plot(curve.epochs, curve.mean, marker=marker, markersize=3, label=label, **style)
    if band and curve.low != curve.high:
        axes.fill_between(curve.epochs, curve.low, curve.high, color=style["color"], alpha=0.15, linewidth=0)


def _share_heights(panels: list[Axes]) -> None:
    """Dev and train lie on one scale, so that the gap between them shows."""
    limits = [axes.get_ylim() for axes in panels]
    for axes in panels:
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def _label_epochs(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
