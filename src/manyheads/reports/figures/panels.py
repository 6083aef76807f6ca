"""The panels of a figure: at most two side by side, since a phone has no room for more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manyheads.reports.figures.style import WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 2
LEGEND_LINE = 0.2  # inches


def single_panel(height: float = 3.0) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height))
    return figure, figure.subplots()


def panel_grid(count: int, height: float = 2.6) -> tuple[Figure, list[Axes]]:
    """`height` is that of one row of panels, in inches."""
    from matplotlib.figure import Figure

    columns = min(count, COLUMNS)
    rows = _divide_up(count, columns)
    figure = Figure(figsize=(WIDTH, height * rows))
    panels: list[Axes] = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for unused in panels[count:]:
        unused.set_visible(False)
    return figure, panels[:count]


def label_axes(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def legend_below(figure: Figure, columns: int = 3, handle_length: float = 1.2) -> None:
    """One legend for all panels, below them. The figure grows by its lines. Dashes need a longer handle."""
    handles_by_label = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles_by_label[label] = handle
        inner_legend = axes.get_legend()
        if inner_legend is not None:
            inner_legend.remove()
    lines = _divide_up(len(handles_by_label), columns)
    figure.set_figheight(figure.get_figheight() + LEGEND_LINE * lines)
    figure.legend(
        list(handles_by_label.values()),
        list(handles_by_label),
        loc="outside lower center",
        ncols=columns,
        handlelength=handle_length,
        columnspacing=1.2,
        markerscale=1.8,
    )


def _divide_up(count: int, size: int) -> int:
    """⌈count / size⌉."""
    return -(-count // size)
