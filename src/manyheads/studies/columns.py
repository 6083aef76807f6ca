"""Columns of a study's table: 'sst' is a task's primary metric, 'sst.macro-f1' another metric, 'overall' the score.

All of them are of best/, the model with the best overall score, on all of dev. What else a column may show of a task's
primary metric is a *reading*:

- 'sst.best': at the task's own best evaluation, whichever model the other columns are of;
- 'sst.best_epoch', 'overall.best_epoch': the epoch of the task's, or the overall score's, best evaluation;
- 'sst.train': on train, at the evaluation that chose best/;
- 'sst.test', 'overall.test': of best/, on test.
"""

from __future__ import annotations

import math
from typing import Literal, cast, get_args

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError, nearest
from manyheads.parts.metrics import metric_name, primary
from manyheads.parts.metrics.base import Metric, find
from manyheads.studies.config import Study
from manyheads.tasks.task import Task

Reading = Literal["best", "best_epoch", "train", "test"]
READINGS: tuple[str, ...] = get_args(Reading)
OVERALL_READINGS = ("best_epoch", "test")
OVERALL = "overall"
READING_TITLES: dict[Reading, str] = {
    "best": "{measured} (own best)",
    "best_epoch": "{name} best epoch",
    "train": "{measured} on train",
    "test": "{measured} on test",
}
LARGEST_DIFFERENCES = {"share": 1.0, "correlation": 2.0, "error": math.inf}  # by a metric's scale


def choose_columns(study: Study, base: Recipe, tasks: dict[str, Task]) -> list[str]:
    """The study's columns, without those of tasks that no finished run has."""
    names = study.metrics
    if names is None:
        names = list(base.tasks)
        if len(names) > 1:
            names.append(OVERALL)
    columns: list[str] = []
    for column in names:
        if column_task(column) == OVERALL:
            columns.append(column)
        elif column_task(column) in tasks:
            check_metric(study, column, tasks[column_task(column)])
            columns.append(column)
    return columns


def check_metric(study: Study, column: str, task: Task) -> None:
    """A column shows a metric that the task is measured by, or another that fits it, with its default options."""
    if "." not in column or column_reading(column) is not None:
        return
    metric = column.partition(".")[2]
    measured = [task_metric.name for task_metric in task.metrics]
    if metric_name(metric) in measured:
        return
    reason = find(metric_name(metric)).why_incompatible(task)
    if reason is None and "(" in metric:
        reason = f"its options are not the default ones; name it in tasks.{task.name}.metrics."
    if reason is not None:
        raise UserError(
            f"{study.location('metrics')}: task '{task.name}' is not measured by '{metric}': {reason}"
            f"{nearest(metric, measured)}",
            code="unknown-metric",
        )


def column_task(column: str) -> str:
    """The task's name, or 'overall'."""
    return column.partition(".")[0]


def column_reading(column: str) -> Reading | None:
    """None for a metric of best/ on dev."""
    reading = column.partition(".")[2]
    if reading in READINGS:
        return cast(Reading, reading)
    return None


def column_metric(column: str, tasks: dict[str, Task]) -> str:
    metric = column.partition(".")[2]
    if not metric or column_reading(column) is not None:
        return primary(tasks[column_task(column)])
    return metric


def column_title(column: str, tasks: dict[str, Task]) -> str:
    name, reading = column_task(column), column_reading(column)
    measured = name
    if name != OVERALL:
        measured = f"{name} {column_metric(column, tasks)}"
    if reading is None:
        return measured
    return READING_TITLES[reading].format(name=name, measured=measured)


def high_is_best(column: str, tasks: dict[str, Task]) -> bool:
    metric = _find_metric(column, tasks)
    return metric is None or metric.best == "high"


def largest_difference(column: str, tasks: dict[str, Task]) -> float:
    """How far apart two values can be: shares and the overall score lie between 0 and 1, correlations from −1 on."""
    metric = _find_metric(column, tasks)
    if metric is None:
        return 1.0
    return LARGEST_DIFFERENCES[metric.scale]


def _find_metric(column: str, tasks: dict[str, Task]) -> Metric | None:
    """None for the overall score."""
    if column_task(column) not in tasks:
        return None
    return find(metric_name(column_metric(column, tasks)))
