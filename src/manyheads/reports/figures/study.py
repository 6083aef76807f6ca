"""Figures of a study: rows with their seeds, differences with intervals, quality against cost, transfer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from manyheads.reports.figures.panels import panel_grid, single_panel
from manyheads.reports.figures.style import FAINT, INK, VERDICT_COLOURS, colour, shorten
from manyheads.studies.comparison import Cell, StudyTable, TableRow
from manyheads.studies.tables import number
from manyheads.studies.transfer import TransferMatrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DrawCell = Callable[["Axes", Cell, int], None]  # a cell at a vertical position
ROW_HEIGHT = 0.27  # inches
NARROWEST_SCALE = 1e-3  # of the colours of a transfer matrix


def means(table: StudyTable, column: str) -> Figure | None:
    """A line per row: its seeds as points, the mean with its 95 % interval, the paper's figure."""
    return _draw_rows(table, column, table.rows, _draw_mean)


def differences(table: StudyTable, column: str) -> Figure | None:
    """A line per row: its difference from the reference with its 95 % interval."""
    if not any(row.cells[column].difference for row in table.rows):
        return None  # of such a column no predictions are kept
    rows = [row for row in table.rows if any(cell.difference for cell in row.cells.values())]
    return _draw_rows(table, column, rows, _draw_difference)


def cost(table: StudyTable) -> Figure | None:
    """Quality against time and memory: the best rows lie high and far left."""
    column = next(iter(table.columns))
    if "overall" in table.columns:
        column = "overall"
    minutes: dict[int, float] = {}  # by the number of the row in the table
    gigabytes: dict[int, float] = {}
    cells: dict[int, Cell] = {}
    for row_number, row in enumerate(table.rows, 1):
        if row.cells[column].values:
            minutes[row_number] = row.seconds / 60
            gigabytes[row_number] = row.gigabytes
            cells[row_number] = row.cells[column]
    if len(cells) < 2:
        return None
    figure, (time_axes, memory_axes) = panel_grid(2, height=2.9)
    _draw_cost(time_axes, minutes, cells, "minutes of training")
    _draw_cost(memory_axes, gigabytes, cells, "peak gigabytes")
    time_axes.set_ylabel(table.columns[column])
    return figure


def _draw_cost(axes: Axes, costs: dict[int, float], cells: dict[int, Cell], title: str) -> None:
    for row_number, value in costs.items():
        cell = cells[row_number]
        half_width = 0.0
        if cell.spread is not None:
            half_width = cell.spread.half_width
        axes.errorbar(
            value,
            cell.mean,
            yerr=half_width,
            fmt="o",
            markersize=5,
            capsize=2,
            color=colour(row_number - 1),
            alpha=0.9,
        )
        axes.annotate(str(row_number), (value, cell.mean), (5, 3), textcoords="offset points", fontsize=8.5)
    axes.set_xlabel(title)
    axes.set_xlim(0, 1.12 * max(costs.values()))


def transfer(matrix: TransferMatrix) -> Figure | None:
    """What each task gains or loses by joint training with another task, and with all; bold numbers are real."""
    tasks = [task for task in matrix.tasks if task in matrix.alone]
    partners = ["all"]
    if len(matrix.tasks) > 2:
        partners = [*matrix.tasks, "all"]
    changes = _transfer_changes(matrix, tasks, partners)
    if np.isnan(changes).all():
        return None
    figure, axes = single_panel(height=1.0 + 0.45 * len(tasks))
    largest = max(float(np.nanmax(np.abs(changes))), NARROWEST_SCALE)
    image = axes.imshow(changes, cmap="PuOr", vmin=-largest, vmax=largest, aspect="auto")
    for (row, column), change in np.ndenumerate(changes):
        if np.isnan(change):
            continue
        sign = "+" if change >= 0 else "−"
        text, weight = f"{sign}{number(abs(change))}", "bold"
        if matrix.cells[tasks[row]][partners[column]].verdict == "not distinguishable":
            text, weight = f"{text} ≈", "normal"
        ink = "#ffffff" if abs(change) > 0.6 * largest else "#1d2733"
        axes.text(column, row, text, ha="center", va="center", fontsize=9, weight=weight, color=ink)
    axes.set_xticks(range(len(partners)), [f"with {partner}" for partner in partners])
    axes.set_yticks(range(len(tasks)), tasks)
    axes.grid(visible=False)
    figure.colorbar(image, ax=axes, label="against alone")
    return figure


def _transfer_changes(matrix: TransferMatrix, tasks: list[str], partners: list[str]) -> np.ndarray:
    """[tasks, partners] mean differences; NaN where there is none."""
    changes = np.full((len(tasks), len(partners)), np.nan)
    for row, task in enumerate(tasks):
        for column, partner in enumerate(partners):
            cell = matrix.cells[task].get(partner)
            if cell is not None and cell.difference is not None:
                changes[row, column] = cell.difference.mean
    return changes


# --- rows ---------------------------------------------------------------------------------------------------------


def _draw_rows(table: StudyTable, column: str, rows: list[TableRow], draw_cell: DrawCell) -> Figure | None:
    if not rows:
        return None
    figure, axes = single_panel(height=0.75 + ROW_HEIGHT * len(rows))
    for position, row in enumerate(rows):
        draw_cell(axes, row.cells[column], position)
    axes.set_yticks(range(len(rows)), [shorten(row.name, 30) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_title(table.columns[column])
    axes.grid(visible=False, axis="y")
    return figure


def _draw_mean(axes: Axes, cell: Cell, position: int) -> None:
    seeds = list(cell.values.values())
    axes.plot(seeds, [position] * len(seeds), "o", markersize=3.5, color=colour(0), alpha=0.45, markeredgewidth=0)
    if cell.spread is not None:
        axes.errorbar(cell.mean, position, xerr=cell.spread.half_width, fmt="|", markersize=10, color=colour(0))
    if cell.published is not None:
        axes.plot(cell.published, position, "D", markersize=4.5, markerfacecolor="none", color=INK, markeredgewidth=0.9)


def _draw_difference(axes: Axes, cell: Cell, position: int) -> None:
    if position == 0:
        axes.axvline(0, color=FAINT, linewidth=1, linestyle=":")
    if cell.difference is None:
        return
    axes.errorbar(
        cell.difference.mean,
        position,
        xerr=cell.difference.half_width,
        fmt="o",
        markersize=4.5,
        capsize=2,
        color=VERDICT_COLOURS[cell.verdict or "not distinguishable"],
    )
