"""A study's tables as text: cells first, then Markdown, csv or a terminal's."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np

from manyheads.progress import duration
from manyheads.study.comparison import Cell, Found, StudyTable
from manyheads.study.statistics import Difference
from manyheads.study.transfer import TransferMatrix
from manyheads.study.variants import ALL

MARKS = {"better": "better", "worse": "worse", "not distinguishable": "≈"}
CSV_COLUMNS = (
    *("variant", "column", "seeds", "mean", "deviation", "paper"),
    *("difference", "half_width", "p", "verdict", "seconds", "gigabytes"),
)
WANTED = 0.01  # a difference that users ask about
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
        found.append({**line, "time": duration(row.seconds)})
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


def confusions(found: Found, task: str, published: dict[str, Any]) -> list[tuple[str, Grid]]:
    """Of every row: counts by true and predicted class, mean over seeds; beside them what the paper prints."""
    tables = []
    for name, runs in found.items():
        results = [members.get(task) or members[ALL] for members in runs.values()]
        classes = results[0].tasks[task].labels.names
        counts = np.zeros((len(classes), len(classes)))
        for one in results:
            np.add.at(counts, (one.labels[task], one.answers[task].argmax(axis=1)), 1 / len(results))
        printed = published.get(name)
        lines = []
        for true, row in enumerate(counts):
            line = {"true \\ predicted": classes[true]}
            line |= {classes[other]: f"{count:.0f}" for other, count in enumerate(row)}
            if isinstance(printed, list):
                line |= {f"paper's {classes[other]}": str(count) for other, count in enumerate(printed[true])}
            lines.append(line)
        tables.append((name, lines))
    return tables


def footer(table: StudyTable) -> list[str]:
    """What a reader must know to read the numbers."""
    lines = []
    seeds = sorted({len(cell.values) for row in table.rows for cell in row.cells.values() if cell.values})
    if seeds == [1]:
        lines.append("One seed: nothing is known of how much seeds vary, so intervals cover the dev examples alone.")
    if table.looks:
        lines.append(
            f"Differences are from '{table.reference}', paired by seed, with 95 % intervals over seeds and dev "
            f"examples, each for itself. 'better' and 'worse' hold for all {table.looks} of them together (Holm); ≈ is "
            "not distinguishable."
        )
        lines += _reach(table)
    for row, count in table.missing.items():
        lines.append(f"Not finished: {row}, {count} of {len(table.study.seed_list)} seeds.")
    return [*lines, *table.notes]


def _reach(table: StudyTable) -> list[str]:
    """What this study can see at all, and what it would take to see more."""
    found, needs = [], []
    for column, title in table.columns.items():
        some = [row.cells[column].difference for row in table.rows if row.cells[column].difference is not None]
        if some:
            typical = sorted((one for one in some if one), key=lambda one: one.error)[len(some) // 2]
            found.append(f"{title} {number(typical.detectable(table.looks))}")
            needs.append(f"{title} {_needed(typical, table.looks)}")
    if not found:
        return []
    lines = [f"Smallest difference that would be found four times of five: {', '.join(found)}."]
    if max(len(cell.values) for row in table.rows for cell in row.cells.values()) > 1:
        lines.append(f"Seeds needed to find a difference of {number(WANTED)}: {', '.join(needs)}.")
    return lines


def _needed(one: Difference, looks: int) -> str:
    count = one.seeds_for(WANTED, looks)
    return "more than a dev set of this size allows" if count is None else str(count)


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


def as_csv(table: StudyTable) -> str:
    """A line per row and column, with all figures."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in table.rows:
        for column, cell in row.cells.items():
            found = cell.difference
            compared = [found.mean, found.half_width, found.p, cell.verdict] if found else [None] * 4
            cells = [row.name, column, len(cell.values), cell.mean, cell.deviation, cell.published]
            writer.writerow([*cells, *compared, row.seconds, row.gigabytes])
    return out.getvalue()
