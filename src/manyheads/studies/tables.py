"""A study's tables as text: cells first, then Markdown, csv or a terminal's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from manyheads.console import duration
from manyheads.errors import UserError
from manyheads.storage.csv_text import csv_text
from manyheads.storage.ragged import Ragged
from manyheads.studies.calibration import CalibrationChange
from manyheads.studies.columns import column_reading
from manyheads.studies.comparison import Cell, FinishedResults, StudyTable
from manyheads.studies.margins import MarginTable
from manyheads.studies.noninferiority import p_not_worse
from manyheads.studies.store import Result
from manyheads.studies.transfer import ALONE, WITH_ALL, TransferMatrix
from manyheads.studies.variants import ALL

MEAN_COLUMN = "mean of metrics"  # in csv and JSON, of the lines that are held against a margin
MARKS = {"better": "better", "worse": "worse", "not distinguishable": "≈"}
CSV_COLUMNS = (
    *("variant", "column", "seeds", "mean", "deviation", "paper"),
    *("compared_with", "difference", "half_width", "p", "p_corrected", "verdict"),
    *("steps", "examples", "seconds", "gigabytes"),
    *("margin", "lower_end"),
)
NO_COST = [None] * 4  # of cells of a transfer matrix
NO_DIFFERENCE = [None] * 6
NO_MARGIN = [None] * 2
Grid = list[dict[str, str]]  # lines by column title


def values(table: StudyTable) -> Grid:
    """Mean ± deviation of every row, beside what the paper prints."""
    published_columns = _published_columns(table)
    grid: Grid = []
    for row in table.rows:
        seeds = 0
        for cell in row.cells.values():
            seeds = max(seeds, len(cell.values))
        line = {"variant": row.name, "seeds": str(seeds)}
        for column, title in table.columns.items():
            cell = row.cells[column]
            line[title] = shown_mean(cell)
            if column in published_columns:
                line[f"paper's {column}"] = ""
                if cell.published is not None:
                    line[f"paper's {column}"] = number(cell.published, cell.digits)
        line |= {"steps": f"{row.steps:,.0f}", "examples": f"{row.examples:,.0f}", "time": duration(row.seconds)}
        grid.append(line)
    return grid


def trivial(table: StudyTable) -> Grid:
    """What the rows are held against, of the row that others are compared with."""
    grid: Grid = []
    for name, cells in table.trivial.items():
        line = {"baseline": name}
        for column, cell in cells.items():
            line[table.columns[column]] = shown_mean(cell)
        grid.append(line)
    return grid


def calibrations(table: StudyTable) -> Grid:
    """A line per row: of each task the metric that tells whether its calibration helps, before and after."""
    grid: Grid = []
    tasks: dict[str, str] = {}  # task → its metric
    for changes in table.calibration.values():
        for task, change in changes.items():
            telling = [metric for metric in change.after if metric != "loss"]
            if telling:
                tasks.setdefault(task, telling[0])
    for row_name, changes in table.calibration.items():
        line = {"variant": row_name}
        for task, metric in tasks.items():
            line[f"{task} {metric}"] = "–"
            if task in changes:
                line[f"{task} {metric}"] = _change(changes[task], metric)
        grid.append(line)
    return grid


def calibration_details(table: StudyTable) -> Grid:
    """A line per row and task: what was fitted, and every metric of it before and after."""
    metrics: dict[str, None] = {}
    for changes in table.calibration.values():
        for change in changes.values():
            metrics |= dict.fromkeys(change.before)
    grid: Grid = []
    for row_name, changes in table.calibration.items():
        for task, change in changes.items():
            fitted = "thresholds"
            if change.temperature is not None:
                fitted = f"temperature {change.temperature:.3g}"
            line = {"variant": row_name, "task": task, "fitted": fitted}
            for metric in metrics:
                line[metric] = _change(change, metric)
            grid.append(line)
    return grid


def _change(change: CalibrationChange, metric: str) -> str:
    if metric not in change.before:
        return "–"
    return f"{number(change.before[metric])} → {number(change.after[metric])}"


def _published_columns(table: StudyTable) -> set[str]:
    """Columns of which the paper prints any figure."""
    columns: set[str] = set()
    for row in table.rows:
        for column, cell in row.cells.items():
            if cell.published is not None:
                columns.add(column)
    return columns


def differences(table: StudyTable) -> Grid:
    """Each row minus the one that is compared with, and the verdict."""
    grid: Grid = []
    for row in table.rows:
        is_compared = any(cell.difference for cell in row.cells.values())
        if row.name != table.reference and is_compared:
            line = {"variant": row.name}
            for column, title in table.columns.items():
                if column_reading(column) is None:
                    line[title] = shown_difference(row.cells[column])
            grid.append(line)
    return grid


def transfers(matrix: TransferMatrix) -> Grid:
    """A line per task: alone, and what it gained or lost by joint training."""
    partners = [WITH_ALL]
    if len(matrix.tasks) > 2:
        partners = [*matrix.tasks, WITH_ALL]
    grid: Grid = []
    for task in matrix.tasks:
        if task not in matrix.alone:
            continue
        line = {"task": task, "alone": shown_mean(matrix.alone[task])}
        for partner in partners:
            line[f"with {partner}"] = ""
            if partner in matrix.cells[task]:
                line[f"with {partner}"] = shown_difference(matrix.cells[task][partner])
        grid.append(line)
    return grid


def confusions(table: StudyTable, finished: FinishedResults, task: str) -> list[tuple[str, Grid]]:
    """Of every row: counts by true and predicted class, mean over seeds; beside them what the paper prints."""
    tables: list[tuple[str, Grid]] = []
    for row in table.rows:
        results: list[Result] = []
        for members in finished[row.name].values():
            result = members.get(task) or members.get(ALL)
            if result is not None and task in result.tasks:
                results.append(result)
        if results:
            tables.append((row.name, _confusion(results, task, table.study.published.get(row.name))))
    return tables


def _confusion(results: list[Result], task: str, published: Any) -> Grid:
    first = results[0]
    if isinstance(first.labels[task], Ragged) or first.labels[task].ndim != 1 or first.predictions[task].ndim != 2:
        raise UserError(
            f"layout 'confusion': task '{task}' has no classes that could be taken for one another.", code="no-classes"
        )
    classes = first.tasks[task].labels.names
    counts = np.zeros((len(classes), len(classes)))
    for result in results:
        np.add.at(counts, (result.labels[task], result.predictions[task].argmax(axis=1)), 1 / len(results))
    grid: Grid = []
    for true_class, class_counts in enumerate(counts):
        line = {"true \\ predicted": classes[true_class]}
        for name, count in zip(classes, class_counts, strict=True):
            line[name] = f"{count:.0f}"
        if isinstance(published, list):
            for name, published_count in zip(classes, published[true_class], strict=False):
                line[f"paper's {name}"] = str(published_count)
        grid.append(line)
    return grid


# --- cells ------------------------------------------------------------------------------------------------------


def shown_mean(cell: Cell) -> str:
    if not cell.values:
        return "–"
    if cell.deviation is None:
        return number(cell.mean, cell.digits)
    return f"{number(cell.mean, cell.digits)} ± {number(cell.deviation, cell.digits)}"


def shown_difference(cell: Cell) -> str:
    if cell.difference is None:
        return "–"
    sign = "−"
    if cell.difference.mean >= 0:
        sign = "+"
    size, half = number(abs(cell.difference.mean)), number(cell.difference.half_width)
    return f"{sign}{size} ± {half} {MARKS[cell.verdict or 'not distinguishable']}"


def number(value: float, digits: int = 3) -> str:
    """.512, 1.204: as the papers print shares."""
    text = f"{value:.{digits}f}"
    if text.startswith("0."):
        return text[1:]
    return text.replace("-0.", "−.")


# --- forms ------------------------------------------------------------------------------------------------------


def markdown(grid: Grid) -> str:
    if not grid:
        return ""
    titles = list(grid[0])
    lines = [titles, ["---"] * len(titles)]
    for row in grid:
        lines.append([row.get(title, "") for title in titles])
    text = ""
    for cells in lines:
        escaped = [cell.replace("|", "\\|") for cell in cells]
        text += f"| {' | '.join(escaped)} |\n"
    return text


def as_csv(table: StudyTable, matrices: Sequence[TransferMatrix] = ()) -> str:
    """A line per row and column, with all figures; then those of transfer matrices, and of margins."""
    return csv_text([CSV_COLUMNS, *_figure_lines(table, matrices)])


def as_json(table: StudyTable, matrices: Sequence[TransferMatrix], notes: Sequence[str]) -> dict[str, Any]:
    """The lines of the csv as objects, what calibration changed, and what stands beneath the table."""
    figures = [dict(zip(CSV_COLUMNS, line, strict=True)) for line in _figure_lines(table, matrices)]
    for line in figures:
        if isinstance(line["mean"], float) and math.isnan(line["mean"]):
            line["mean"] = None  # JSON has no such number
    calibration: dict[str, Any] = {}
    for row_name, tasks in table.calibration.items():
        calibration[row_name] = {task: asdict(change) for task, change in tasks.items()}
    return {"study": table.study.name, "figures": figures, "calibration": calibration, "notes": list(notes)}


def _figure_lines(table: StudyTable, matrices: Sequence[TransferMatrix]) -> list[Sequence[Any]]:
    lines: list[Sequence[Any]] = []
    for row in table.rows:
        for column, cell in row.cells.items():
            cost = (row.steps, row.examples, row.seconds, row.gigabytes)
            lines.append([*_csv_cells(row.name, column, cell, table.reference), *cost, *NO_MARGIN])
    for matrix in matrices:
        for task, alone in matrix.alone.items():
            row_names = matrix.row_names[task]
            lines.append([*_csv_cells(row_names[ALONE], task, alone, ""), *NO_COST, *NO_MARGIN])
            for partner, cell in matrix.cells[task].items():
                lines.append([*_csv_cells(row_names[partner], task, cell, row_names[ALONE]), *NO_COST, *NO_MARGIN])
    if table.margins is not None:
        lines += _margin_lines(table.margins)
    return lines


def _margin_lines(margins: MarginTable) -> list[Sequence[Any]]:
    """A line per row and measure; p is that of "not worse", one-sided."""
    lines: list[Sequence[Any]] = []
    for row_name, cells in margins.rows.items():
        for measure, cell in cells.items():
            between, p, corrected, verdict = cell.difference, None, None, None
            if cell.margin is not None and cell.judged is not None:
                p = p_not_worse(between, cell.margin)
                corrected, verdict = cell.judged.corrected, cell.judged.verdict
            figures = [between.mean, between.half_width, p, corrected, verdict]
            start = [row_name, measure or MEAN_COLUMN, between.seeds, None, None, None, margins.request.than]
            lines.append([*start, *figures, *NO_COST, cell.margin, between.lower_end()])
    return lines


def _csv_cells(row: str, column: str, cell: Cell, reference: str) -> list[Any]:
    cells = [row, column, len(cell.values), cell.mean, cell.deviation, cell.published]
    if cell.difference is None:
        return [*cells, *NO_DIFFERENCE]
    measured = cell.difference
    return [*cells, reference, measured.mean, measured.half_width, measured.p, cell.corrected, cell.verdict]
