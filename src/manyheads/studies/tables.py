"""A study's tables as text: cells first, then Markdown, csv or a terminal's."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from manyheads.console import duration
from manyheads.errors import UserError
from manyheads.studies.comparison import Cell, Found, StudyTable
from manyheads.studies.statistics import middle
from manyheads.studies.transfer import ALONE, TransferMatrix
from manyheads.studies.variants import ALL

MARKS = {"better": "better", "worse": "worse", "not distinguishable": "≈"}
CSV_COLUMNS = (
    *("variant", "column", "seeds", "mean", "deviation", "paper"),
    *("compared_with", "difference", "half_width", "p", "p_corrected", "verdict"),
    *("steps", "examples", "seconds", "gigabytes"),
)
WANTED = 0.01  # a difference that users ask about
MOST_SEEDS = 100  # beyond them nothing is counted: it would be the bootstrap's noise
SELECTED = (
    "A task alone keeps the checkpoint that is best for it, company the one with the best overall score: part of what "
    "company costs may be that choice."
)
EACH_ITS_OWN = (
    "Where a row has a run for each task, a run keeps the checkpoint that is best for its task; in other rows all "
    "tasks share the one with the best overall score."
)
Grid = list[dict[str, str]]  # rows by column title


def values(table: StudyTable) -> Grid:
    """Mean ± deviation of every row, beside what the paper prints."""
    found = []
    for row in table.rows:
        line = {"variant": row.name, "seeds": str(max((len(cell.values) for cell in row.cells.values()), default=0))}
        for column, title in table.columns.items():
            cell = row.cells[column]
            line[title] = shown_mean(cell)
            if any(other.cells[column].published is not None for other in table.rows):
                line[f"paper's {column}"] = "" if cell.published is None else number(cell.published)
        cost = {"steps": f"{row.steps:,.0f}", "examples": f"{row.examples:,.0f}", "time": duration(row.seconds)}
        found.append({**line, **cost})
    return found


def differences(table: StudyTable) -> Grid:
    """Each row minus the one that is compared with, and what may be said of it."""
    return [
        {"variant": row.name, **{title: shown_difference(row.cells[c]) for c, title in table.columns.items()}}
        for row in table.rows
        if row.name != table.reference and any(cell.difference for cell in row.cells.values())
    ]


def transfers(matrix: TransferMatrix) -> Grid:
    """A row per task: alone, and what it gained or lost with company."""
    found = []
    for task in matrix.tasks:
        if task in matrix.alone:
            line = {"task": task, "alone": shown_mean(matrix.alone[task])}
            for other in [*(matrix.tasks if len(matrix.tasks) > 2 else []), "all"]:
                title = "with all" if other == "all" else f"with {other}"
                cell = matrix.cells[task].get(other)
                line[title] = "" if cell is None else shown_difference(cell)
            found.append(line)
    return found


def confusions(table: StudyTable, found: Found, task: str) -> list[tuple[str, Grid]]:
    """Of every row: counts by true and predicted class, mean over seeds; beside them what the paper prints."""
    tables = []
    for name in (row.name for row in table.rows):
        answered = [members.get(task) or members.get(ALL) for members in found[name].values()]
        results = [one for one in answered if one is not None and task in one.tasks]
        if not results:
            continue
        if results[0].labels[task].ndim != 1 or results[0].predictions[task].ndim != 2:
            raise UserError(f"layout 'confusion': task '{task}' has no classes that could be taken for one another.")
        classes = results[0].tasks[task].labels.names
        counts = np.zeros((len(classes), len(classes)))
        for one in results:
            np.add.at(counts, (one.labels[task], one.predictions[task].argmax(axis=1)), 1 / len(results))
        printed = table.study.published.get(name)
        lines = []
        for true, row in enumerate(counts):
            line = {"true \\ predicted": classes[true]}
            line |= {classes[other]: f"{count:.0f}" for other, count in enumerate(row)}
            if isinstance(printed, list):
                line |= {f"paper's {classes[other]}": str(count) for other, count in enumerate(printed[true])}
            lines.append(line)
        tables.append((name, lines))
    return tables


def footer(table: StudyTable, matrices: Sequence[TransferMatrix] = ()) -> list[str]:
    """What a reader must know to read the numbers."""
    planned = len(table.study.seed_list)
    over = "over seeds and dev examples" if planned > 1 else "over dev examples alone"
    lines = []
    if planned == 1:
        lines.append("One seed: nothing is known of how much seeds vary, so intervals cover the dev examples alone.")
    if table.looks and table.study.layout == "rows":
        lines.append(
            f"Differences are from '{table.reference}', paired by seed, with 95 % intervals {over}, each for itself. "
            f"'better' and 'worse' hold for all {table.looks} of them together (Holm); ≈ is not distinguishable."
        )
        cells = {title: [row.cells[column] for row in table.rows] for column, title in table.columns.items()}
        most = {title: table.most[column] for column, title in table.columns.items()}
        lines += reach(cells, most, table.looks)
        by_task = ["task" in one.each for one in table.study.variants.values()]
        if any(by_task) and not all(by_task):
            lines.append(EACH_ITS_OWN)
    for matrix in matrices:
        if not matrix.looks:
            continue
        lines.append(
            f"Transfer at equal {matrix.equal}: changes are from the task alone, with 95 % intervals {over}, each for "
            f"itself. 'better' and 'worse' hold for all {matrix.looks} of them together, apart from others (Holm)."
        )
        lines.append(SELECTED)
        if matrix.equal == "steps":
            lines.append("At equal steps tasks and pairs are trained by batch round robin: a batch of each in a step.")
        lines += reach({task: list(one.values()) for task, one in matrix.cells.items()}, matrix.most, matrix.looks)
    for row, count in all_missing(table, matrices).items():
        few = "; one alone is not compared yet" if planned - count == 1 else ""
        lines.append(f"Not finished: {row}, {count} of {planned} seeds{few}.")
    return [*lines, *table.notes]


def all_missing(table: StudyTable, matrices: Sequence[TransferMatrix]) -> dict[str, int]:
    """Row → how many of its seeds are not finished, those of baselines last."""
    found = dict(table.missing)
    for matrix in matrices:
        found |= matrix.missing
    return found


def reach(cells: dict[str, list[Cell]], most: dict[str, float], looks: int) -> list[str]:
    """What can be seen at all, by title, and what it would take to see more."""
    found, needs, beyond = [], [], []
    for title, some in cells.items():
        compared = [cell.difference for cell in some if cell.difference and cell.difference.error]
        if not compared:
            continue
        middling = middle(compared)
        least = middling.detectable(looks)
        found.append(f"{title} {number(least) if least <= most[title] else 'none that there can be'}")
        if middling.seeds > 1 and (count := middling.seeds_for(WANTED, looks, MOST_SEEDS)):
            needs.append(f"{title} {count}")
        elif middling.seeds > 1:
            beyond.append(title)
    lines = []
    if found:
        told = "Smallest difference that would be found four times of five, at the rows' median variance"
        lines.append(f"{told}: {', '.join(found)}.")
    if needs or beyond:
        many = [f"more than {MOST_SEEDS} for {', '.join(beyond)}"] if beyond else []
        told = f"Seeds needed to find a difference of {number(WANTED)}, roughly"
        lines.append(f"{told}: {'; '.join([*needs, *many])}.")
    return lines


# --- cells ------------------------------------------------------------------------------------------------------


def shown_mean(cell: Cell) -> str:
    if not cell.values:
        return "–"
    spread = "" if cell.deviation is None else f" ± {number(cell.deviation)}"
    return number(cell.mean) + spread


def shown_difference(cell: Cell) -> str:
    if cell.difference is None:
        return "–"
    sign = "+" if cell.difference.mean >= 0 else "−"
    size, half = number(abs(cell.difference.mean)), number(cell.difference.half_width)
    return f"{sign}{size} ± {half} {MARKS[cell.verdict or 'not distinguishable']}"


def number(value: float) -> str:
    """.512, 1.204: as the papers print shares."""
    text = f"{value:.3f}"
    return text[1:] if text.startswith("0.") else text.replace("-0.", "−.")


# --- forms ------------------------------------------------------------------------------------------------------


def markdown(grid: Grid) -> str:
    if not grid:
        return ""
    titles = list(grid[0])
    lines = [titles, ["---"] * len(titles), *([row.get(title, "") for title in titles] for row in grid)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def as_csv(table: StudyTable, matrices: Sequence[TransferMatrix] = ()) -> str:
    """A line per row and column, with all figures; then those of transfer matrices."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in table.rows:
        for column, cell in row.cells.items():
            cost = (row.steps, row.examples, row.seconds, row.gigabytes)
            writer.writerow([*_csv_line(row.name, column, cell, table.reference), *cost])
    for matrix in matrices:
        for task, alone in matrix.alone.items():
            lonely = matrix.rows[task][ALONE]
            writer.writerow([*_csv_line(lonely, task, alone, ""), *[None] * 4])
            for other, cell in matrix.cells[task].items():
                writer.writerow([*_csv_line(matrix.rows[task][other], task, cell, lonely), *[None] * 4])
    return out.getvalue()


def _csv_line(row: str, column: str, cell: Cell, reference: str) -> list[Any]:
    found = cell.difference
    cells = [row, column, len(cell.values), cell.mean, cell.deviation, cell.published]
    if found is None:
        return [*cells, *[None] * 6]
    return [*cells, reference, found.mean, found.half_width, found.p, cell.corrected, cell.verdict]
