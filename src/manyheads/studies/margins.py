"""`not_worse` of a study: every row held against one, on the mean of all tasks' metrics and on each task's own.

The mean over the tasks that count in the overall score, of their primary metrics as they are:

    mean = 1/T · Σ_i ±v_i        − where low values are good

Unlike the overall score it has no weights, and a correlation is not brought to 0 to 1: .01 of Pearson's r is .01 here,
and .005 there. Dev examples of a task are drawn for both rows and all seeds alike; tasks that read the same dev rows
(two labels of one file) draw them together, since an example that is hard for one may be hard for the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError
from manyheads.inference.bootstrap import DRAWS, drawn_metric
from manyheads.parts.metrics import metric_name, primary
from manyheads.parts.metrics.base import find
from manyheads.studies.columns import column_title, high_is_best
from manyheads.studies.config import NotWorse, Study
from manyheads.studies.noninferiority import Judged, judge
from manyheads.studies.statistics import Difference, difference
from manyheads.studies.store import Result
from manyheads.tasks.task import Task

if TYPE_CHECKING:
    from manyheads.studies.comparison import RowMetrics

MEAN = ""  # among the measures; a task's name is never empty


@dataclass(frozen=True)
class MarginCell:
    """A row against the reference, on one measure: the mean, or a task."""

    difference: Difference  # above 0 the row is better
    examples: int  # of dev, of all its tasks together
    margin: float | None = None
    judged: Judged | None = None  # None without a margin, or with a single seed


@dataclass(frozen=True)
class MarginTable:
    """All rows against the one that they should be no worse than."""

    request: NotWorse
    measures: dict[str, str]  # '' → 'mean of 3 metrics', 'sst' → 'sst accuracy'
    rows: dict[str, dict[str, MarginCell]]  # row → measure
    drawn_together: list[list[str]] = field(default_factory=list)  # tasks that read the same dev rows
    stated: int = 0  # runs in whose training these margins stood in their study's file
    runs: int = 0  # of the rows that are compared

    def looks(self, measure: str) -> int:
        """How many rows are judged on a measure."""
        return sum(measure in cells for cells in self.rows.values())


def make_margins(study: Study, base: Recipe, rows: dict[str, RowMetrics], tasks: dict[str, Task]) -> MarginTable | None:
    """None where the study names no margin, or the row that others are held against is not finished."""
    request = study.not_worse
    if request is None or request.than not in rows:
        return None
    counted = counted_tasks(base)
    check_mean(study, base, tasks)
    reference = rows[request.than]
    others = {name: row for name, row in rows.items() if name != request.than}
    groups = _tasks_of_same_rows(base, reference, counted)
    judged = {MEAN: _judge(_compare_all(counted, others, reference, groups), request.margin)}
    for name in base.tasks:
        judged[name] = _judge(_compare_all([name], others, reference, []), request.tasks.get(name))
    table_rows: dict[str, dict[str, MarginCell]] = {}
    for row_name in others:
        cells = {measure: by_row[row_name] for measure, by_row in judged.items() if row_name in by_row}
        if cells:
            table_rows[row_name] = cells
    measures = {MEAN: f"mean of {len(counted)} metrics"}
    measures |= {name: column_title(name, tasks) for name in base.tasks if name in tasks}
    results = _distinct_results([reference, *(rows[name] for name in table_rows)])
    named = [result.margins for result in results]
    stated = named.count(request.model_dump(mode="json"))
    together = [names for names in groups if len(names) > 1]
    return MarginTable(request, measures, table_rows, together, stated, len(results))


def counted_tasks(base: Recipe) -> list[str]:
    """The tasks of the mean: those that weigh anything in the overall score."""
    return [name for name in base.tasks if base.evaluate.weights.get(name, 1.0)]


def check_mean(study: Study, base: Recipe, tasks: dict[str, Task]) -> None:
    """An error without an upper bound, such as MSE, is not on one scale with shares and correlations."""
    if study.not_worse is None:
        return
    counted = counted_tasks(base)
    for name in counted:
        if len(counted) == 1 or name not in tasks:
            continue
        metric = metric_name(primary(tasks[name]))
        if find(metric).scale == "error":
            raise UserError(
                f"{study.location('not_worse')}: task '{name}' is measured by '{metric}', which has no largest value, "
                "so a mean with other tasks' metrics says nothing. Put a share or a correlation first in "
                f"tasks.{name}.metrics, or give the task no weight (evaluate.weights: {{{name}: 0}}).",
                code="no-common-scale",
            )


def _judge(cells: dict[str, MarginCell], margin: float | None) -> dict[str, MarginCell]:
    """All rows of one measure together."""
    if margin is None:
        return cells
    several_seeds = {row: cell.difference for row, cell in cells.items() if cell.difference.seeds > 1}
    judged = judge(several_seeds, margin)
    return {row: MarginCell(cell.difference, cell.examples, margin, judged.get(row)) for row, cell in cells.items()}


def _compare_all(
    measured_tasks: list[str], rows: dict[str, RowMetrics], reference: RowMetrics, groups: list[list[str]]
) -> dict[str, MarginCell]:
    """By row; without those that cannot be compared."""
    cells: dict[str, MarginCell] = {}
    for name, row in rows.items():
        cell = _compare(measured_tasks, row, reference, groups)
        if cell is not None:
            cells[name] = cell
    return cells


def _compare(
    measured_tasks: list[str], ours: RowMetrics, theirs: RowMetrics, groups: list[list[str]]
) -> MarginCell | None:
    """The mean of these tasks, over the seeds that both rows have; None where those are too few, or a value is not
    defined."""
    our_values, their_values = _values(measured_tasks, ours), _values(measured_tasks, theirs)
    seeds = [seed for seed in our_values if seed in their_values]
    if len(seeds) < ours.fewest_seeds:
        return None
    for name in measured_tasks:
        theirs.check_same_dev(name, ours, seeds[0])
    our_draws = np.stack([_drawn(measured_tasks, ours, seed, groups) for seed in seeds])
    their_draws = np.stack([_drawn(measured_tasks, theirs, seed, groups) for seed in seeds])
    defined = np.isfinite(our_draws).all(axis=0) & np.isfinite(their_draws).all(axis=0)
    if defined.sum() < 2:
        return None
    between = difference(
        [our_values[seed] for seed in seeds],
        [their_values[seed] for seed in seeds],
        our_draws[:, defined],
        their_draws[:, defined],
    )
    examples = 0
    for name in measured_tasks:
        result = theirs.result(name, seeds[0])
        if result is not None:
            examples += len(result.labels[name])
    return MarginCell(between, examples)


def _values(measured_tasks: list[str], row: RowMetrics) -> dict[int, float]:
    """The mean by seed, of those in which every task has a value."""
    by_task = {name: row.values(name) for name in measured_tasks if name in row.tasks}
    values: dict[int, float] = {}
    for seed in row.runs:
        signed: list[float] = []
        for name, task_values in by_task.items():
            if seed in task_values:
                signed.append(_sign(name, row) * task_values[seed])
        if len(signed) == len(measured_tasks):
            values[seed] = float(np.mean(signed))
    return values


def _drawn(measured_tasks: list[str], row: RowMetrics, seed: int, groups: list[list[str]]) -> np.ndarray:
    """[draws] the mean on every bootstrap draw."""
    total = np.zeros(DRAWS)
    for name in measured_tasks:
        total += _sign(name, row) * _drawn_task(name, row, seed, groups)
    return total / len(measured_tasks)


def _drawn_task(name: str, row: RowMetrics, seed: int, groups: list[list[str]]) -> np.ndarray:
    """[draws] of a task: its own draws, or those of the first task that reads the same rows."""
    first = name
    for names in groups:
        if name in names:
            first = names[0]
    result, first_result = row.result(name, seed), row.result(first, seed)
    if first == name or result is None or first_result is None:
        return row.drawn(name, seed)
    task = result.tasks[name]
    dev = first_result.dev[first]
    return drawn_metric(task, primary(task), result.predictions[name], result.labels[name], dev)


def _sign(name: str, row: RowMetrics) -> float:
    return 1.0 if high_is_best(name, row.tasks) else -1.0


def _tasks_of_same_rows(base: Recipe, reference: RowMetrics, names: list[str]) -> list[list[str]]:
    """Tasks in groups: those whose dev rows are the same rows of the same files stand together."""
    seed = next(iter(reference.runs))
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        settings, result = base.tasks[name], reference.result(name, seed)
        if result is None:
            groups[name,] = [name]
            continue
        split = "train" if settings.dev is None else "dev"
        files = [source.model_dump_json() for source in settings.sources(split)]
        groups.setdefault((*files, *result.ids[name]), []).append(name)
    return list(groups.values())


def _distinct_results(rows: list[RowMetrics]) -> list[Result]:
    results: dict[str, Result] = {}
    for row in rows:
        for members in row.runs.values():
            for result in members.values():
                results[result.identity] = result
    return list(results.values())
