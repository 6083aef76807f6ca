"""From the results of a study's runs to its table: means, deviations, differences and their verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError
from manyheads.inference.bootstrap import DRAWS, drawn_metric
from manyheads.parts.metrics import measured_by, overall, primary, score
from manyheads.studies.calibration import CalibrationByRow, calibration_by_row
from manyheads.studies.columns import (
    OVERALL,
    choose_columns,
    column_metric,
    column_reading,
    column_task,
    column_title,
    high_is_best,
    largest_difference,
)
from manyheads.studies.config import Study
from manyheads.studies.margins import MarginTable, make_margins
from manyheads.studies.readings import best_overall_epoch, describe_readings, read_value
from manyheads.studies.statistics import Difference, Verdict, difference, holm, verdicts
from manyheads.studies.store import Result
from manyheads.studies.trivial import trivial_results
from manyheads.studies.variants import ALL, Row
from manyheads.tasks.task import Task

Members = dict[str, Result]  # member of a row → its finished run
FinishedResults = dict[str, dict[int, Members]]  # row → seed → its runs, where all of them are finished
Scores = dict[str, dict[str, float | None]]  # task → metric → value


@dataclass
class Cell:
    """One column of one row."""

    values: dict[int, float]  # by seed
    published: float | None = None
    spread: Difference | None = None  # of the mean itself, as of its difference from 0
    difference: Difference | None = None  # from the row that is compared with
    corrected: float | None = None  # its p-value among all comparisons of the table (Holm)
    verdict: Verdict | None = None
    digits: int = 3  # that a table shows

    @property
    def mean(self) -> float:
        if not self.values:
            return math.nan
        return float(np.mean(list(self.values.values())))

    @property
    def deviation(self) -> float | None:
        """Over seeds; None for a single seed."""
        if len(self.values) < 2:
            return None
        return float(np.std(list(self.values.values()), ddof=1))


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
    """The table of a study, of the runs that are finished."""

    study: Study
    columns: dict[str, str]  # 'sst' → 'sst accuracy'
    largest_differences: dict[str, float]  # how far apart two values of a column can be
    reference: str
    rows: list[TableRow]
    missing: dict[str, int]  # row → how many of its seeds are not finished
    fewer_seeds: dict[str, int] = field(default_factory=dict)  # rows that have fewer than the study
    margins: MarginTable | None = None  # whether rows are not worse than the one that the study names
    calibration: CalibrationByRow = field(default_factory=dict)
    trivial: dict[str, dict[str, Cell]] = field(
        default_factory=dict
    )  # majority and frozen probe, as the reference has them
    looks: int = 0  # differences that were looked at
    about_columns: list[str] = field(default_factory=list)  # what columns other than metrics of best/ on dev show
    notes: list[str] = field(default_factory=list)


def make_table(study: Study, base: Recipe, rows: list[Row], finished: FinishedResults) -> StudyTable:
    """Every finished row against the one that the study names."""
    tasks = tasks_of(finished)
    columns = choose_columns(study, base, tasks)
    reference = study.to or rows[0].name
    row_metrics: dict[str, RowMetrics] = {}
    table_rows: list[TableRow] = []
    for row in rows:
        if finished.get(row.name):
            metrics = RowMetrics(finished[row.name], base, tasks, len(study.seed_list))
            row_metrics[row.name] = metrics
            table_rows.append(_make_row(study, row.name, columns, metrics))
    compared: list[tuple[Cell, bool]] = []
    if reference in row_metrics:
        for table_row in table_rows:
            if table_row.name != reference:
                for column, cell in table_row.cells.items():
                    cell.difference = compare(column, row_metrics[table_row.name], row_metrics[reference])
                    if cell.difference is not None:
                        compared.append((cell, high_is_best(column, tasks)))
    set_verdicts(compared)
    titles = {column: column_title(column, tasks) for column in columns}
    return StudyTable(
        study=study,
        columns=titles,
        largest_differences={column: largest_difference(column, tasks) for column in columns},
        reference=reference,
        rows=table_rows,
        missing=missing_seeds({row.name: row.seed_count(study) for row in rows}, finished),
        fewer_seeds=_fewer_seeds(rows),
        margins=make_margins(study, base, row_metrics, tasks),
        calibration=calibration_by_row(finished, list(row_metrics)),
        trivial=_trivial_cells(finished.get(reference, {}), columns, base, tasks),
        looks=len(compared),
        about_columns=describe_readings(titles, _results_of(row_metrics.values())),
        notes=study.notes,
    )


def _trivial_cells(
    runs: dict[int, Members], columns: list[str], base: Recipe, tasks: dict[str, Task]
) -> dict[str, dict[str, Cell]]:
    """What majority and frozen probe have in each column, in the runs of the row that others are compared with."""
    cells: dict[str, dict[str, Cell]] = {}
    for name, results in trivial_results(runs).items():
        metrics = RowMetrics(results, base, tasks, len(runs))
        cells[name] = {column: Cell(metrics.values(column)) for column in columns if column_reading(column) is None}
    return cells


def _results_of(rows: Iterable[RowMetrics]) -> list[Result]:
    results: list[Result] = []
    for row in rows:
        for members in row.runs.values():
            results += members.values()
    return results


def _make_row(study: Study, name: str, columns: list[str], metrics: RowMetrics) -> TableRow:
    published = study.published.get(name)
    cells: dict[str, Cell] = {}
    for column in columns:
        cells[column] = Cell(metrics.values(column), spread=metrics.spread(column))
        if column_reading(column) == "best_epoch":
            cells[column].digits = 1
        if isinstance(published, dict):
            cells[column].published = published.get(column)
    costs: list[tuple[float, float, float]] = []
    gigabytes = 0.0
    for members in metrics.runs.values():
        steps, examples, seconds = 0, 0, 0.0
        for result in members.values():
            steps += result.steps
            examples += sum(result.examples_seen.values())
            seconds += result.seconds
            gigabytes = max(gigabytes, result.gigabytes)
        costs.append((steps, examples, seconds))
    mean_costs = np.mean(costs, axis=0)
    return TableRow(name, cells, float(mean_costs[0]), float(mean_costs[1]), float(mean_costs[2]), gigabytes)


def missing_seeds(planned: dict[str, int], finished: FinishedResults) -> dict[str, int]:
    """Row → how many of its planned seeds are not finished; without rows that have all."""
    missing: dict[str, int] = {}
    for name, seeds in planned.items():
        count = seeds - len(finished.get(name, {}))
        if count:
            missing[name] = count
    return missing


def _fewer_seeds(rows: list[Row]) -> dict[str, int]:
    return {row.name: row.seeds for row in rows if row.seeds is not None}


def tasks_of(finished: FinishedResults) -> dict[str, Task]:
    """Every task of any run: all runs agree in what its metrics are called."""
    tasks: dict[str, Task] = {}
    for runs in finished.values():
        for members in runs.values():
            for result in members.values():
                tasks.update(result.tasks)
    return tasks


def set_verdicts(compared: list[tuple[Cell, bool]]) -> None:
    """Judge all cells of a table together; each comes with whether high is best in it."""
    differences: list[Difference] = []
    high: list[bool] = []
    for cell, cell_high in compared:
        if cell.difference is not None:
            differences.append(cell.difference)
            high.append(cell_high)
    corrected = holm([cell_difference.p for cell_difference in differences])
    for (cell, _), verdict, p in zip(compared, verdicts(differences, high), corrected, strict=True):
        cell.verdict, cell.corrected = verdict, p


# --- metrics of one row -----------------------------------------------------------------------------------------


class RowMetrics:
    """One row's metrics, by seed and on every bootstrap draw, computed when they are needed."""

    def __init__(self, runs: dict[int, Members], base: Recipe, tasks: dict[str, Task], planned_seeds: int) -> None:
        self.runs, self.base, self.tasks = runs, base, tasks
        self.fewest_seeds = min(2, planned_seeds)  # the first of several seeds does not show how much seeds vary
        self._drawn: dict[tuple[str, int], np.ndarray] = {}
        weights = base.evaluate.weights
        self._overall_tasks = [name for name in base.tasks if weights.get(name, 1.0)]

    def result(self, task: str, seed: int) -> Result | None:
        members = self.runs[seed]
        result = members.get(task) or members.get(ALL)
        if result is None or task not in result.tasks:
            return None
        return result

    def check_same_dev(self, task: str, other: RowMetrics, seed: int) -> None:
        """Rows can be compared only where they were measured on the same examples."""
        result, other_result = self.result(task, seed), other.result(task, seed)
        if result is not None and other_result is not None and result.dev[task] != other_result.dev[task]:
            raise UserError(
                f"task '{task}': two rows were measured on different dev examples, and cannot be compared.",
                code="different-dev",
            )

    def values(self, column: str) -> dict[int, float]:
        """By seed; without those where it is undefined."""
        values: dict[int, float] = {}
        for seed in self.runs:
            value = self._value(column, seed)
            if value is not None:
                values[seed] = value
        return values

    def _value(self, column: str, seed: int) -> float | None:
        task, reading = column_task(column), column_reading(column)
        if task == OVERALL:
            return self._overall_value(column, seed)
        result = self.result(task, seed)
        if result is None:
            return None
        metric = column_metric(column, self.tasks)
        if reading is not None:
            return read_value(result, task, reading, metric)
        if metric in result.metrics[task]:
            return result.metrics[task][metric]
        # another metric than the run's own, of the predictions that are kept
        scores = score(measured_by(result.tasks[task], metric), result.predictions[task], result.labels[task])
        return scores.get(metric)

    def _overall_value(self, column: str, seed: int) -> float | None:
        reading = column_reading(column)
        if reading == "best_epoch":
            result = self.runs[seed].get(ALL)  # runs of single tasks have no epoch in common
            if result is None:
                return None
            return best_overall_epoch(result)
        scores: Scores = {}
        for name in self._overall_tasks:
            result = self.result(name, seed)
            if result is None:
                return None
            scores[name] = result.metrics[name]
            if reading == "test":
                value = read_value(result, name, reading, primary(result.tasks[name]))
                if value is None:
                    return None
                scores[name] = {primary(self.tasks[name]): value}
        return self._overall(scores)

    def drawn(self, column: str, seed: int) -> np.ndarray:
        """[draws]"""
        if (column, seed) not in self._drawn:
            if column == OVERALL:
                self._drawn[column, seed] = self._draw_overall(seed)
            else:
                self._drawn[column, seed] = self._draw(column, seed)
        return self._drawn[column, seed]

    def _draw(self, column: str, seed: int) -> np.ndarray:
        task = column_task(column)
        result = self.result(task, seed)
        assert result is not None
        metric = column_metric(column, self.tasks)
        return drawn_metric(result.tasks[task], metric, result.predictions[task], result.labels[task], result.dev[task])

    def _draw_overall(self, seed: int) -> np.ndarray:
        drawn = {name: self.drawn(name, seed) for name in self._overall_tasks}
        metrics = {name: primary(self.tasks[name]) for name in drawn}
        scores = np.empty(DRAWS)
        for draw_index in range(DRAWS):
            task_scores: Scores = {}
            for name, values in drawn.items():
                value: float | None = float(values[draw_index])
                if not np.isfinite(values[draw_index]):
                    value = None
                task_scores[name] = {metrics[name]: value}
            scores[draw_index] = self._overall(task_scores)
        return scores

    def _overall(self, scores: Scores) -> float:
        settings = self.base.evaluate
        return overall(scores, {name: self.tasks[name] for name in scores}, settings.overall, settings.weights)

    def spread(self, column: str) -> Difference | None:
        """How sure the row's mean is, over seeds and dev examples; None where no predictions are kept."""
        if column_reading(column) is not None:
            return None
        values = self.values(column)
        if len(values) < self.fewest_seeds:
            return None
        drawn = np.stack([self.drawn(column, seed) for seed in values])
        drawn = drawn[:, np.isfinite(drawn).all(axis=0)]
        if drawn.shape[1] < 2:
            return None
        return difference(list(values.values()), [0.0] * len(values), drawn, np.zeros_like(drawn))


def compare(column: str, ours: RowMetrics, theirs: RowMetrics) -> Difference | None:
    """Over the seeds that both have.

    None where they are too few, the metric is undefined, the runs are the same, or no predictions of it are kept.
    """
    if column_reading(column) is not None:
        return None
    our_values, their_values = ours.values(column), theirs.values(column)
    seeds = [seed for seed in our_values if seed in their_values]
    if len(seeds) < ours.fewest_seeds or _are_equal_runs(column, ours, theirs, seeds[0]):
        return None
    our_draws = np.stack([ours.drawn(column, seed) for seed in seeds])
    their_draws = np.stack([theirs.drawn(column, seed) for seed in seeds])
    defined = np.isfinite(our_draws).all(axis=0) & np.isfinite(their_draws).all(axis=0)
    if defined.sum() < 2:
        return None
    return difference(
        [our_values[seed] for seed in seeds],
        [their_values[seed] for seed in seeds],
        our_draws[:, defined],
        their_draws[:, defined],
    )


def _are_equal_runs(column: str, ours: RowMetrics, theirs: RowMetrics, seed: int) -> bool:
    """Whether two rows have the very same runs of a column's tasks; their dev examples must be equal."""
    tasks = [column_task(column)]
    if column == OVERALL:
        tasks = list(ours.base.tasks)
    equal = True
    for task in tasks:
        our_result, their_result = ours.result(task, seed), theirs.result(task, seed)
        if our_result is None or their_result is None:
            equal = False
            continue
        ours.check_same_dev(task, theirs, seed)
        if our_result.identity != their_result.identity:
            equal = False
    return equal
