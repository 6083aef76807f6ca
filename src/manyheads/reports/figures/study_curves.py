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
    """A panel per task: its primary metric on dev, and dashed on train, where that was measured."""
    dev = {task_name: row.metric_curve(task_name) for task_name in metrics}
    tasks = [task_name for task_name, curve in dev.items() if curve is not None]
    if not tasks:
        return None
    figure, panels = panel_grid(len(tasks))
    for axes, task_name in zip(panels, tasks, strict=True):
        dev_curve, train_curve = dev[task_name], row.metric_curve(task_name, "train")
        if dev_curve is not None:
            _draw(axes, dev_curve, {"color": colour(0), "linestyle": "-"}, "dev", band=True)
        if train_curve is not None:
            _draw(axes, train_curve, {"color": colour(1), "linestyle": "--"}, "train", band=True)
        axes.set_title(f"{shorten(task_name)} {metrics[task_name]}")
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
