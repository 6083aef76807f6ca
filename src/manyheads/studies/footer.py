"""Lines beneath a study's table: intervals, corrections, what could have been seen, what is not finished."""

from __future__ import annotations

from collections.abc import Sequence

from manyheads.studies.comparison import Cell, StudyTable
from manyheads.studies.margin_tables import about_margins
from manyheads.studies.noninferiority import MOST_SEEDS
from manyheads.studies.statistics import Difference, median_difference
from manyheads.studies.tables import number
from manyheads.studies.transfer import TransferMatrix

SMALL_DIFFERENCE = 0.01  # that users ask about
ONE_SEED = "One seed: nothing is known of how much seeds vary, so intervals cover the dev examples alone."
ALONE_CHECKPOINT = (
    "A task alone keeps the checkpoint that is best for it, joint training the one with the best overall score: "
    "part of what joint training costs may be that choice."
)
TASK_CHECKPOINTS = (
    "Where a row has a run for each task, a run keeps the checkpoint that is best for its task; in other rows all "
    "tasks share the one with the best overall score."
)


def footer(table: StudyTable, matrices: Sequence[TransferMatrix] = ()) -> list[str]:
    """Lines beneath the table and its transfer matrices."""
    planned = len(table.study.seed_list)
    lines: list[str] = []
    variance = "over seeds and dev examples"
    if planned == 1:
        lines.append(ONE_SEED)
        variance = "over dev examples alone"
    if table.looks and table.study.layout == "rows":
        lines += _about_differences(table, variance)
    for matrix in matrices:
        if matrix.looks:
            lines += _about_transfer(matrix, variance)
    if table.study.layout == "rows":
        lines += about_margins(table, variance)
        lines += table.about_columns
    for row, count in all_missing(table, matrices).items():
        row_seeds = min(planned, table.fewer_seeds.get(row, planned))
        text = f"Not finished: {row}, {count} of {row_seeds} seeds"
        if row_seeds - count == 1:
            text += "; one alone is not compared yet"
        lines.append(f"{text}.")
    for row, row_seeds in table.fewer_seeds.items():
        if row_seeds == 1 < planned:
            lines.append(f"'{row}' has one seed of the study's {planned}: it is shown, and not compared.")
    return [*lines, *table.notes]


def _about_differences(table: StudyTable, variance: str) -> list[str]:
    lines = [
        f"Differences are from '{table.reference}', paired by seed, with 95 % intervals {variance}, each for itself. "
        f"'better' and 'worse' hold for all {table.looks} of them together (Holm); ≈ is not distinguishable."
    ]
    cells: dict[str, list[Cell]] = {}
    largest: dict[str, float] = {}
    for column, title in table.columns.items():
        cells[title] = [row.cells[column] for row in table.rows]
        largest[title] = table.largest_differences[column]
    lines += detectable(cells, largest, table.looks)
    by_task = ["task" in variant.each for variant in table.study.variants.values()]
    if any(by_task) and not all(by_task):
        lines.append(TASK_CHECKPOINTS)
    return lines


def _about_transfer(matrix: TransferMatrix, variance: str) -> list[str]:
    lines = [
        f"Transfer at equal {matrix.equal}: changes are from the task alone, with 95 % intervals {variance}, each for "
        f"itself. 'better' and 'worse' hold for all {matrix.looks} of them together, apart from others (Holm).",
        ALONE_CHECKPOINT,
    ]
    if matrix.equal == "steps":
        lines.append("At equal steps tasks and pairs are trained by batch round robin: a batch of each in a step.")
    cells: dict[str, list[Cell]] = {}
    for task, by_partner in matrix.cells.items():
        cells[task] = list(by_partner.values())
    return lines + detectable(cells, matrix.largest_differences, matrix.looks)


def all_missing(table: StudyTable, matrices: Sequence[TransferMatrix]) -> dict[str, int]:
    """Row → how many of its seeds are not finished, those of baselines last."""
    missing = dict(table.missing)
    for matrix in matrices:
        missing |= matrix.missing
    return missing


def detectable(cells: dict[str, list[Cell]], largest: dict[str, float], looks: int) -> list[str]:
    """The smallest difference that would be found, by title, and how many seeds a small one needs."""
    smallest: list[str] = []
    needed: list[str] = []
    beyond: list[str] = []
    for title, column_cells in cells.items():
        median = _median_of(column_cells)
        if median is None:
            continue
        size = median.detectable(looks)
        if size <= largest[title]:
            smallest.append(f"{title} {number(size)}")
        else:
            smallest.append(f"{title} none that there can be")
        if median.seeds > 1:
            count = median.seeds_for(SMALL_DIFFERENCE, looks, MOST_SEEDS)
            if count:
                needed.append(f"{title} {count}")
            else:
                beyond.append(title)
    lines: list[str] = []
    if smallest:
        text = "Smallest difference that would be found four times of five, at the rows' median variance"
        lines.append(f"{text}: {', '.join(smallest)}.")
    if beyond:
        needed.append(f"more than {MOST_SEEDS} for {', '.join(beyond)}")
    if needed:
        text = f"Seeds needed to find a difference of {number(SMALL_DIFFERENCE)}, roughly"
        lines.append(f"{text}: {'; '.join(needed)}.")
    return lines


def _median_of(cells: list[Cell]) -> Difference | None:
    """A difference with the median variances of these cells; None where none varies."""
    compared: list[Difference] = []
    for cell in cells:
        if cell.difference is not None and cell.difference.error:
            compared.append(cell.difference)
    if not compared:
        return None
    return median_difference(compared)
