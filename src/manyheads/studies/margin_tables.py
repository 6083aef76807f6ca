"""Whether rows are not worse than another, as text: a line per row and measure, and what stands beneath."""

from __future__ import annotations

import math

from manyheads.studies.comparison import StudyTable
from manyheads.studies.margins import MEAN, MarginCell, MarginTable
from manyheads.studies.noninferiority import MOST_SEEDS, Needed, needed_for, provable_margin, smallest_margin
from manyheads.studies.tables import Grid, number

DIGITS = 4  # margins are small
NOT_JUDGED = "no verdict from one seed"
PROVISIONAL = (
    "Not all seeds are finished: verdicts are provisional. Who looks after every seed, and stops at a verdict that "
    "suits, errs more than 5 times of 100."
)


def margins(table: StudyTable) -> Grid:
    """Difference, interval and smallest margin of every row and task, and verdicts where the study names a margin."""
    if table.margins is None:
        return []
    grid: Grid = []
    for row_name, cells in table.margins.rows.items():
        for measure, cell in cells.items():
            between = cell.difference
            grid.append(
                {
                    "variant": row_name,
                    "on": table.margins.measures[measure],
                    "difference": f"{signed(between.mean)} ± {number(between.half_width, DIGITS)}",
                    "lower end": signed(between.lower_end()),
                    "smallest margin": number(rounded_up(smallest_margin(between)), DIGITS),
                    "verdict": shown_verdict(cell),
                }
            )
    return grid


def shown_verdict(cell: MarginCell) -> str:
    """'not worse (margin .01)'; nothing where the study names no margin."""
    if cell.margin is None:
        return ""
    if cell.judged is None:
        return NOT_JUDGED
    return f"{cell.judged.verdict} {shown_margin(cell)}"


def shown_margin(cell: MarginCell) -> str:
    """'(margin .01)'; nothing where the study names none."""
    if cell.margin is None:
        return ""
    return f"(margin {_short(cell.margin)})"


def signed(value: float) -> str:
    """'+.0031', '−.0083'."""
    sign = "+" if value >= 0 else "−"
    return f"{sign}{number(abs(value), DIGITS)}"


def rounded_up(margin: float) -> float:
    """So that what is shown holds: the printed margin is not below the smallest."""
    return math.ceil(margin * 10**DIGITS - 1e-9) / 10**DIGITS


def _short(margin: float) -> str:
    """.01, .005."""
    return f"{margin:g}".removeprefix("0")


# --- lines beneath the table ------------------------------------------------------------------------------------


def about_margins(table: StudyTable, variance: str) -> list[str]:
    """How the verdicts are made, what they could have shown, and what those that are open would need."""
    judged = table.margins
    if judged is None or not judged.rows:
        return []
    looks = judged.looks(MEAN)
    together = f"{looks} rows together (Holm)" if looks > 1 else "the one row"
    lines = [
        f"Held against '{judged.request.than}': differences are paired by seed, above 0 where the row is better, with "
        f"95 % intervals {variance}, each for itself. 'not worse': the lower end of the one-sided 95 % interval lies "
        f"above −margin; 'worse': the upper end lies below it. On the mean, and on each task that has a margin, both "
        f"hold for {together}. The smallest margin is the one that the row's own figures show.",
        f"The {judged.measures[MEAN]} is of primary metrics as they are: unlike 'overall', it weighs all tasks alike "
        "and rescales no correlation.",
    ]
    if judged.drawn_together:
        groups = "; ".join(" with ".join(names) for names in judged.drawn_together)
        lines.append(f"Tasks of the same dev rows are drawn together: {groups}.")
    if table.missing:
        lines.append(PROVISIONAL)
    lines += _provable(judged)
    lines += _needed_lines(judged)
    lines.append(_stated(judged))
    return lines


def _provable(judged: MarginTable) -> list[str]:
    provable: list[str] = []
    for measure, title in judged.measures.items():
        differences = [cells[measure].difference for cells in judged.rows.values() if measure in cells]
        several_seeds = [between for between in differences if between.seeds > 1]
        margin = provable_margin(several_seeds, judged.looks(measure))
        if margin is not None:
            provable.append(f"{title} {number(margin, DIGITS)}")
    if not provable:
        return []
    text = "Smallest margin that would be shown four times of five if rows were equal, at their median variance"
    return [f"{text}: {', '.join(provable)}."]


def _needed_lines(judged: MarginTable) -> list[str]:
    """Of every verdict that is open."""
    lines: list[str] = []
    for row_name, cells in judged.rows.items():
        for measure, cell in cells.items():
            if cell.margin is None or (cell.judged is not None and cell.judged.verdict != "not shown"):
                continue
            title = judged.measures[measure]
            needed = needed_for(cell.difference, cell.margin, judged.looks(measure))
            text = describe_needed(needed, cell)
            lines.append(f"'{row_name}' on {title}: a margin of {_short(cell.margin)} {text}.")
    return lines


def describe_needed(needed: Needed, cell: MarginCell) -> str:
    """'needs about 7 seeds, or 2.3 times the dev examples (5,060 for 2,200)'."""
    seeds = cell.difference.seeds
    if seeds == 1:
        return "needs at least two seeds: one does not say how much seeds vary"
    if needed.is_there:
        return (
            f"would be shown four times of five by these {seeds} seeds and dev examples if the rows were equal: more "
            "of them may show that they are not"
        )
    ways: list[str] = []
    if needed.seeds is not None:
        ways.append(f"{needed.seeds} seeds with these dev examples")
    if needed.times is not None:
        ways.append(f"{_more_examples(needed.times, cell)} with these {seeds} seeds")
    if needed.both is not None:
        count, times = needed.both
        ways.append(f"{count} seeds and {_more_examples(times, cell)}")
    if not ways:
        return f"is out of reach at these variances: more than {MOST_SEEDS} seeds"
    return f"needs about {', or '.join(ways)}, if the rows are equal"


def _more_examples(times: float, cell: MarginCell) -> str:
    """Rounded up, so that what is said is enough."""
    shown = math.ceil(times * 10 - 1e-9) / 10
    return f"{shown:g} times the dev examples ({math.ceil(shown * cell.examples - 1e-6):,} for {cell.examples:,})"


def _stated(judged: MarginTable) -> str:
    if judged.stated == judged.runs:
        return f"These margins stood in the study's file while all {judged.runs} runs were trained."
    if not judged.stated:
        return f"None of the {judged.runs} runs was trained while these margins stood in its study's file."
    return f"These margins stood in the study's file while {judged.stated} of the {judged.runs} runs were trained."
