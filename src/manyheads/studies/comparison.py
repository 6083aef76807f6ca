"""From the results of a study's runs to its table: means, deviations, differences, and what may be said of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError
from manyheads.parts.metrics import overall, primary
from manyheads.parts.metrics.base import Metric, find
from manyheads.studies.bootstrap import drawn_metric
from manyheads.studies.config import Study
from manyheads.studies.statistics import DRAWS, Difference, Verdict, difference, holm, verdicts
from manyheads.studies.store import Result
from manyheads.studies.variants import ALL, Row
from manyheads.tasks.task import Task

OVERALL = "overall"
Members = dict[str, Result]  # member of a row → its finished run
Found = dict[str, dict[int, Members]]  # row → seed → its runs, where all of them are finished


@dataclass
class Cell:
    """One column of one row."""

    values: dict[int, float]  # by seed
    published: float | None = None
    spread: Difference | None = None  # of the mean itself, as of its difference from 0
    difference: Difference | None = None  # from the row that is compared with
    corrected: float | None = None  # its p-value among all that were looked at (Holm)
    verdict: Verdict | None = None

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.values.values()))) if self.values else math.nan

    @property
    def deviation(self) -> float | None:
        """Over seeds; of one seed there is none."""
        return float(np.std(list(self.values.values()), ddof=1)) if len(self.values) > 1 else None


@dataclass
class TableRow:
    name: str
    cells: dict[str, Cell]
    steps: float  # this and the next two: mean over seeds, all runs of the row together
    examples: float
    seconds: float
    gigabytes: float


@dataclass
class StudyTable:
    """What a study found so far."""

    study: Study
    columns: dict[str, str]  # 'sst' → 'sst accuracy'
    most: dict[str, float]  # how far apart two values of a column can be
    reference: str
    rows: list[TableRow]
    missing: dict[str, int]  # row → how many of its seeds are not finished
    looks: int = 0  # differences that were looked at
    notes: list[str] = field(default_factory=list)


def make_table(study: Study, base: Recipe, rows: list[Row], found: Found) -> StudyTable:
    """Every finished row against the one that the study names."""
    tasks = tasks_of(found)
    columns = _columns(study, base, tasks)
    reference = study.to or rows[0].name
    names = [row.name for row in rows]
    high = {column: high_is_best(column, tasks) for column in columns}
    done = [row.name for row in rows if found.get(row.name)]
    planned = len(study.seed_list)
    measured = {name: Measured(found[name], base, tasks, planned) for name in done}
    made = [_row(name, columns, measured[name], found[name], study.published) for name in done]
    for row in made:
        for column in columns:
            row.cells[column].spread = spread(column, measured[row.name])
    looked: list[tuple[Cell, str]] = []
    for row in made if reference in done else []:
        for column in columns if row.name != reference else ():
            cell, other = row.cells[column], measured[reference]
            cell.difference = compare(column, measured[row.name], other)
            if cell.difference is not None:
                looked.append((cell, column))
    mark([(cell, high[column]) for cell, column in looked])
    titles = {column: _title(column, tasks) for column in columns}
    most = {column: most_apart(column, tasks) for column in columns}
    return StudyTable(study, titles, most, reference, made, unfinished(study, names, found), len(looked), study.notes)


def unfinished(study: Study, names: list[str], found: Found) -> dict[str, int]:
    """Row → how many of its seeds are not finished; without those that have all."""
    missing = {name: len(study.seed_list) - len(found.get(name, {})) for name in names}
    return {name: count for name, count in missing.items() if count}


def mark(looked: list[tuple[Cell, bool]]) -> None:
    """Say of all cells that were looked at, and whether high is best in them, what may be said."""
    found = [cell.difference for cell, _ in looked if cell.difference]
    told = verdicts(found, [high for _, high in looked])
    corrected = holm([one.p for one in found])
    for (cell, _), verdict, p in zip(looked, told, corrected, strict=True):
        cell.verdict, cell.corrected = verdict, p


class Measured:
    """One row's metrics, by seed and on every bootstrap draw, computed when they are asked for."""

    def __init__(self, runs: dict[int, Members], base: Recipe, tasks: dict[str, Task], planned: int) -> None:
        self.runs, self.base, self.tasks = runs, base, tasks
        self.least = min(2, planned)  # the first of several seeds says nothing yet of how much seeds vary
        self._drawn: dict[tuple[str, int], np.ndarray] = {}

    def result(self, task: str, seed: int) -> Result | None:
        members = self.runs[seed]
        found = members.get(task) or members.get(ALL)
        return found if found is not None and task in found.tasks else None

    def values(self, column: str) -> dict[int, float]:
        """By seed; without those where it is undefined."""
        found = {seed: self._value(column, seed) for seed in self.runs}
        return {seed: value for seed, value in found.items() if value is not None}

    def _value(self, column: str, seed: int) -> float | None:
        if column != OVERALL:
            result, metric = self.result(_task(column), seed), _metric(column, self.tasks)
            return result.metrics[_task(column)].get(metric) if result else None
        scores: dict[str, dict[str, float | None]] = {}
        for name in self._counted:
            result = self.result(name, seed)
            if result is None:
                return None
            scores[name] = result.metrics[name]
        return self._overall(scores)

    def drawn(self, column: str, seed: int) -> np.ndarray:
        """[draws]"""
        if (column, seed) not in self._drawn:
            self._drawn[column, seed] = self._draw(column, seed)
        return self._drawn[column, seed]

    def _draw(self, column: str, seed: int) -> np.ndarray:
        if column != OVERALL:
            task = _task(column)
            result = self.result(task, seed)
            assert result is not None
            metric = _metric(column, self.tasks)
            return drawn_metric(
                result.tasks[task], metric, result.predictions[task], result.labels[task], result.dev[task]
            )
        each = {name: self.drawn(name, seed) for name in self._counted}
        found = np.empty(DRAWS)
        for number in range(DRAWS):
            found[number] = self._overall(
                {name: {primary(self.tasks[name]): _number(some[number])} for name, some in each.items()}
            )
        return found

    @property
    def _counted(self) -> list[str]:
        """The tasks of the overall score."""
        return [name for name in self.base.tasks if self.base.evaluate.weights.get(name, 1.0)]

    def _overall(self, scores: dict[str, dict[str, float | None]]) -> float:
        settings = self.base.evaluate
        return overall(scores, {name: self.tasks[name] for name in scores}, settings.overall, settings.weights)


def compare(column: str, ours: Measured, theirs: Measured) -> Difference | None:
    """Over the seeds that both have; None where they are too few, the metric is undefined, or the runs are the same."""
    mine, other = ours.values(column), theirs.values(column)
    seeds = [seed for seed in mine if seed in other]
    if len(seeds) < ours.least:
        return None
    tasks = ours.base.tasks if column == OVERALL else [_task(column)]
    both = {task: (ours.result(task, seeds[0]), theirs.result(task, seeds[0])) for task in tasks}
    for task, (a, b) in both.items():
        if a is not None and b is not None and a.dev[task] != b.dev[task]:
            raise UserError(f"task '{task}': two rows were measured on different dev examples, and cannot be compared.")
    if all(a is not None and b is not None and a.identity == b.identity for a, b in both.values()):
        return None
    drawn = [np.stack([one.drawn(column, seed) for seed in seeds]) for one in (ours, theirs)]
    defined = np.isfinite(drawn[0]).all(axis=0) & np.isfinite(drawn[1]).all(axis=0)
    if defined.sum() < 2:
        return None
    return difference(
        [mine[seed] for seed in seeds], [other[seed] for seed in seeds], drawn[0][:, defined], drawn[1][:, defined]
    )


def spread(column: str, ours: Measured) -> Difference | None:
    """How sure a row's mean is, over seeds and dev examples."""
    mine = ours.values(column)
    if len(mine) < ours.least:
        return None
    drawn = np.stack([ours.drawn(column, seed) for seed in mine])
    drawn = drawn[:, np.isfinite(drawn).all(axis=0)]
    nothing = [0.0] * len(mine)
    return difference(list(mine.values()), nothing, drawn, np.zeros_like(drawn)) if drawn.shape[1] > 1 else None


def _row(
    name: str, columns: list[str], measured: Measured, runs: dict[int, Members], published: dict[str, Any]
) -> TableRow:
    printed = published.get(name)
    cells = {
        column: Cell(measured.values(column), printed.get(column) if isinstance(printed, dict) else None)
        for column in columns
    }
    costs = [
        [sum(values) for values in zip(*(_cost(one) for one in members.values()), strict=True)]
        for members in runs.values()
    ]
    steps, examples, seconds = (float(value) for value in np.mean(costs, axis=0))
    gigabytes = max(one.gigabytes for members in runs.values() for one in members.values())
    return TableRow(name, cells, steps, examples, seconds, gigabytes)


def _cost(run: Result) -> tuple[float, float, float]:
    return run.steps, sum(run.examples_seen.values()), run.seconds


# --- columns ----------------------------------------------------------------------------------------------------


def tasks_of(found: Found) -> dict[str, Task]:
    """Every task of any run: in what its metrics are called all runs agree."""
    return {
        name: task
        for runs in found.values()
        for members in runs.values()
        for one in members.values()
        for name, task in one.tasks.items()
    }


def _columns(study: Study, base: Recipe, tasks: dict[str, Task]) -> list[str]:
    """Those that the study asks for; without tasks of which no run is finished."""
    wanted = study.metrics or [*base.tasks, *([OVERALL] if len(base.tasks) > 1 else [])]
    found = [column for column in wanted if column == OVERALL or _task(column) in tasks]
    for column in found:
        if column != OVERALL and not _metric_known(_metric(column, tasks), tasks[_task(column)]):
            location = study._origin.location(("metrics",))
            raise UserError(f"{location}: task '{_task(column)}' is not measured by '{_metric(column, tasks)}'.")
    return found


def _metric_known(metric: str, task: Task) -> bool:
    return metric_name(metric) in {one.name for one in task.metrics}


def _task(column: str) -> str:
    return column.partition(".")[0]


def _metric(column: str, tasks: dict[str, Task]) -> str:
    return column.partition(".")[2] or primary(tasks[_task(column)])


def _title(column: str, tasks: dict[str, Task]) -> str:
    return column if column == OVERALL else f"{_task(column)} {_metric(column, tasks)}"


def high_is_best(column: str, tasks: dict[str, Task]) -> bool:
    metric = _metric_of(column, tasks)
    return metric is None or metric.best == "high"


def most_apart(column: str, tasks: dict[str, Task]) -> float:
    """How far apart two values can be: shares and the overall score lie between 0 and 1, correlations from −1 on."""
    metric = _metric_of(column, tasks)
    return {"share": 1.0, "correlation": 2.0, "error": math.inf}[metric.scale] if metric else 1.0


def _metric_of(column: str, tasks: dict[str, Task]) -> Metric | None:
    """None for the overall score."""
    if column == OVERALL or _task(column) not in tasks:
        return None
    return find(metric_name(_metric(column, tasks)))


def metric_name(key: str) -> str:
    """'f1-per-class/1' or 'within(0.2)' → the metric's own name."""
    return key.partition("/")[0].partition("(")[0]


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
