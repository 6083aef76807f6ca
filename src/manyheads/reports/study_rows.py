"""A study's rows as its figures read them: of every task the runs that measure it, and their curves over epochs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyheads.config.recipe import Recipe
from manyheads.parts.metrics import overall, primary
from manyheads.reports.task_predictions import TaskPredictions
from manyheads.studies.comparison import FinishedResults, StudyTable
from manyheads.studies.store import Result
from manyheads.studies.variants import ALL

Points = dict[float, float]  # epoch → value


@dataclass(frozen=True)
class Curve:
    """A value against the epoch: the mean over seeds, the smallest and the largest."""

    epochs: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class StudyRow:
    """A row of the table."""

    number: int  # in the table, from 1
    name: str
    results: dict[str, list[Result]]  # task → the runs that measure it, one per seed
    joint: list[Result]  # the runs of all tasks, one per seed; empty where every task has a run of its own

    @property
    def has_history(self) -> bool:
        """False where a version wrote the results that kept no history."""
        return any(result.history for results in self.results.values() for result in results)

    def metric_curve(self, task_name: str, split: str = "metrics") -> Curve | None:
        """A task's primary metric: on dev ('metrics'), or on train ('train')."""
        results = self.results.get(task_name, [])
        curves = [_metric_points(result, task_name, split) for result in results]
        return seed_curve(curves)

    def loss_curve(self, task_name: str, split: str = "losses") -> Curve | None:
        """A task's loss: on dev ('losses'), or on train ('train_losses')."""
        curves = []
        for result in self.results.get(task_name, []):
            points: Points = {}
            for epoch, entry in zip(epochs_of(result.history), result.history, strict=True):
                value = entry.get(split, {}).get(task_name)
                if value is not None:
                    points[epoch] = value
            curves.append(points)
        return seed_curve(curves)

    def overall_curve(self, base: Recipe) -> Curve | None:
        """The overall score on dev; None where every task has a run of its own."""
        return seed_curve([_overall_points(result, base) for result in self.joint])


def study_rows(table: StudyTable, finished: FinishedResults, base: Recipe) -> list[StudyRow]:
    """The rows of the table, in its order."""
    rows = []
    for number, table_row in enumerate(table.rows, 1):
        results: dict[str, list[Result]] = {}
        joint: list[Result] = []
        for members in finished[table_row.name].values():
            if ALL in members:
                joint.append(members[ALL])
            for task_name in base.tasks:
                result = members.get(task_name) or members.get(ALL)
                if result is not None and isinstance(result.predictions.get(task_name), np.ndarray):
                    results.setdefault(task_name, []).append(result)
        rows.append(StudyRow(number, table_row.name, results, joint))
    return rows


def tasks_of_rows(rows: Sequence[StudyRow], base: Recipe) -> list[str]:
    """The tasks that any row measures, in the recipe's order."""
    return [name for name in base.tasks if any(name in row.results for row in rows)]


def primary_of_rows(rows: Sequence[StudyRow], task_name: str) -> str:
    """The key of a task's primary metric."""
    for row in rows:
        if task_name in row.results:
            return primary(row.results[task_name][0].tasks[task_name])
    return ""


def first_predictions(seeds: Sequence[Result], task_name: str) -> TaskPredictions:
    """A task's predictions by the first of a row's seeds."""
    first = seeds[0]
    return TaskPredictions(
        first.tasks[task_name], first.predictions[task_name], first.labels[task_name], ids=first.ids[task_name]
    )


def epochs_of(history: Sequence[Mapping[str, Any]]) -> list[float]:
    """Where each evaluation lies on the axis of epochs; several within an epoch lie evenly in it, the last at its end.

    The e-th epoch, evaluated k times: e − 1 + 1/k, …, e. An evaluation before training has epoch 0.
    """
    count = Counter(entry["epoch"] for entry in history)
    passed: Counter[int] = Counter()
    positions = []
    for entry in history:
        epoch = entry["epoch"]
        passed[epoch] += 1
        positions.append(epoch - 1 + passed[epoch] / count[epoch])
    return positions


def seed_curve(seeds: Sequence[Points]) -> Curve | None:
    """At every epoch the mean, smallest and largest value of the seeds that have one there."""
    epochs = sorted({epoch for points in seeds for epoch in points})
    if not epochs:
        return None
    mean, low, high = [], [], []
    for epoch in epochs:
        values = [points[epoch] for points in seeds if epoch in points]
        mean.append(float(np.mean(values)))
        low.append(min(values))
        high.append(max(values))
    return Curve(epochs, mean, low, high)


def _metric_points(result: Result, task_name: str, split: str) -> Points:
    metric = primary(result.tasks[task_name])
    points: Points = {}
    for epoch, entry in zip(epochs_of(result.history), result.history, strict=True):
        value = entry.get(split, {}).get(task_name, {}).get(metric)
        if value is not None:
            points[epoch] = value
    return points


def _overall_points(result: Result, base: Recipe) -> Points:
    """Of the evaluations that measured every task that counts."""
    settings = base.evaluate
    tasks = {}
    for name in base.tasks:
        if settings.weights.get(name, 1.0) and name in result.tasks:
            tasks[name] = result.tasks[name]
    points: Points = {}
    for epoch, entry in zip(epochs_of(result.history), result.history, strict=True):
        if tasks and set(tasks) <= set(entry["metrics"]):
            points[epoch] = overall(entry["metrics"], tasks, settings.overall, settings.weights)
    return points
