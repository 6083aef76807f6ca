"""Figures of a study: rows with their seeds, differences with intervals, what quality costs, who helps whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from manyheads.reports.figures.style import FAINT, INK, colour, short
from manyheads.reports.figures.training import side_by_side
from manyheads.studies.comparison import StudyTable, TableRow
from manyheads.studies.tables import number
from manyheads.studies.transfer import TransferMatrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draw = Callable[["Axes", TableRow, str, int], None]  # a row's cell of a column, at a place
ROW = 0.27  # inches
SHADE = {"better": colour(2), "worse": colour(1), "not distinguishable": FAINT}


def means(table: StudyTable, columns: list[str]) -> Figure | None:
    """A panel per metric, a line per row: its seeds as points, the mean with its 95 % interval, the paper's figure."""
    return _panels(table, columns, table.rows, _mean)


def differences(table: StudyTable, columns: list[str]) -> Figure | None:
    """The same, of each row minus the one that is compared with: what does not touch the line may be real."""
    rows = [row for row in table.rows if any(cell.difference for cell in row.cells.values())]
    return _panels(table, columns, rows, _difference) if rows else None


def cost(table: StudyTable) -> Figure | None:
    """Quality against time and memory: the best rows lie high and to the left."""
    column = "overall" if "overall" in table.columns else next(iter(table.columns))
    rows = {location: row for location, row in enumerate(table.rows, 1) if row.cells[column].values}
    if len(rows) < 2:
        return None
    figure, every = side_by_side(2, height=2.9)
    minutes = [row.seconds / 60 for row in rows.values()]
    memory = [row.gigabytes for row in rows.values()]
    whats = (("minutes of training", minutes), ("gigabytes at most", memory))
    for axes, (what, values) in zip(every, whats, strict=True):
        for (location, row), value in zip(rows.items(), values, strict=True):
            cell = row.cells[column]
            half = cell.spread.half_width if cell.spread else 0.0
            axes.errorbar(
                value, cell.mean, yerr=half, fmt="o", markersize=5, capsize=2, color=colour(location - 1), alpha=0.9
            )
            axes.annotate(str(location), (value, cell.mean), (5, 3), textcoords="offset points", fontsize=8.5)
        axes.set_xlabel(what)
        axes.set_xlim(0, 1.12 * max(values))
    every[0].set_ylabel(table.columns[column])
    return figure


def transfer(matrix: TransferMatrix) -> Figure | None:
    """What each task gains or loses with each other one, and with all; an outline marks what is real."""
    tasks = [task for task in matrix.tasks if task in matrix.alone]
    others = [*(matrix.tasks if len(matrix.tasks) > 2 else []), "all"]
    values = np.full((len(tasks), len(others)), np.nan)
    for row, task in enumerate(tasks):
        for column, other in enumerate(others):
            cell = matrix.cells[task].get(other)
            if cell is not None and cell.difference is not None:
                values[row, column] = cell.difference.mean
    if np.isnan(values).all():
        return None
    figure, axes = side_by_side(height=1.0 + 0.45 * len(tasks))
    largest = max(float(np.nanmax(np.abs(values))), 1e-3)
    image = axes.imshow(values, cmap="PuOr", vmin=-largest, vmax=largest, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            cell = matrix.cells[tasks[row]][others[column]]
            real = cell.verdict != "not distinguishable"
            dark = abs(value) > 0.6 * largest
            shown = f"{'+' if value >= 0 else '−'}{number(abs(value))}"
            axes.text(
                *(column, row, shown + ("" if real else " ≈")),
                ha="center",
                va="center",
                fontsize=9,
                weight="bold" if real else "normal",
                color="#ffffff" if dark else "#1d2733",
            )
    axes.set_xticks(range(len(others)), [f"with {other}" for other in others])
    axes.set_yticks(range(len(tasks)), tasks)
    axes.grid(visible=False)
    figure.colorbar(image, ax=axes, label="against alone")
    return figure


# --- shared -----------------------------------------------------------------------------------------------------


def _panels(table: StudyTable, columns: list[str], rows: list[TableRow], draw: Draw) -> Figure | None:
    """Panels one below the other: names of rows are long, and a phone is narrow."""
    from matplotlib.figure import Figure

    from manyheads.reports.figures.style import WIDTH

    if not rows or not columns:
        return None
    height = len(columns) * (0.75 + ROW * len(rows))
    figure = Figure(figsize=(WIDTH, height))
    every = figure.subplots(len(columns), 1, squeeze=False)[:, 0]
    for axes, column in zip(every, columns, strict=True):
        for location, row in enumerate(rows):
            draw(axes, row, column, location)
        axes.set_yticks(range(len(rows)), [short(row.name, 30) for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_title(table.columns[column])
        axes.grid(visible=False, axis="y")
    return figure


def _mean(axes: Axes, row: TableRow, column: str, location: int) -> None:
    cell = row.cells[column]
    seeds = list(cell.values.values())
    axes.plot(seeds, [location] * len(seeds), "o", markersize=3.5, color=colour(0), alpha=0.45, markeredgewidth=0)
    if cell.spread is not None:
        axes.errorbar(cell.mean, location, xerr=cell.spread.half_width, fmt="|", markersize=10, color=colour(0))
    if cell.published is not None:
        axes.plot(cell.published, location, "D", markersize=4.5, markerfacecolor="none", color=INK, markeredgewidth=0.9)


def _difference(axes: Axes, row: TableRow, column: str, location: int) -> None:
    cell = row.cells[column]
    if location == 0:
        axes.axvline(0, color=FAINT, linewidth=1, linestyle=":")
    if cell.difference is not None:
        shade = SHADE[cell.verdict or "not distinguishable"]
        axes.errorbar(
            cell.difference.mean,
            location,
            xerr=cell.difference.half_width,
            fmt="o",
            markersize=4.5,
            capsize=2,
            color=shade,
        )
