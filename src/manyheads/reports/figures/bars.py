"""Bars of a study: a bar per row, and a dotted line for the mean of all rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from manyheads.reports.figures.panels import legend_below, single_panel
from manyheads.reports.figures.style import INK, colour
from manyheads.studies.columns import OVERALL
from manyheads.studies.comparison import StudyTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROUP_WIDTH = 0.84  # of a row's bars together; rows lie 1 apart
NUMBERED_ROWS = 20  # of more rows only some are numbered


def column_bars(table: StudyTable, column: str) -> Figure | None:
    """A bar per row of one column."""
    return _draw_bars(table, [column], table.columns[column])


def task_bars(table: StudyTable) -> Figure | None:
    """Every row has a bar for each task's primary metric, and every task a line; an error has no bound and no bar."""
    columns = []
    for column in table.columns:
        is_primary = column != OVERALL and "." not in column
        if is_primary and math.isfinite(table.largest_differences[column]):
            columns.append(column)
    if len(columns) < 2:
        return None
    return _draw_bars(table, columns, "")


def row_means(table: StudyTable, column: str) -> dict[int, float]:
    """Number of a row → its mean over seeds; without rows that have none."""
    means: dict[int, float] = {}
    for number, row in enumerate(table.rows, 1):
        if row.cells[column].values:
            means[number] = row.cells[column].mean
    return means


def _draw_bars(table: StudyTable, columns: list[str], title: str) -> Figure | None:
    if len(table.rows) < 2 or not any(row_means(table, column) for column in columns):
        return None
    figure, axes = single_panel(height=2.8)
    width = GROUP_WIDTH / len(columns)
    for index, column in enumerate(columns):
        means = row_means(table, column)
        if not means:
            continue
        offset = (index - (len(columns) - 1) / 2) * width
        positions = [number + offset for number in means]
        heights = list(means.values())
        axes.bar(positions, heights, width=0.94 * width, color=colour(index), label=table.columns[column])
        line_colour = colour(index) if len(columns) > 1 else INK
        axes.axhline(float(np.mean(heights)), color=line_colour, linestyle=":", linewidth=1.3)
    _number_rows(axes, len(table.rows))
    axes.set_title(title)
    if len(columns) > 1:
        legend_below(figure)
    return figure


def _number_rows(axes: Axes, count: int) -> None:
    step = math.ceil(count / NUMBERED_ROWS)
    axes.set_xticks(range(1, count + 1, step))
    axes.set_xlabel("row of the table")
    axes.grid(visible=False, axis="x")
    axes.set_axisbelow(True)
