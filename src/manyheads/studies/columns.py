"""Columns of a study's table: 'sst' is a task's primary metric, 'sst.macro-f1' another metric, 'overall' the score."""

from __future__ import annotations

import math

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError
from manyheads.parts.metrics import primary
from manyheads.parts.metrics.base import Metric, find
from manyheads.studies.config import Study
from manyheads.tasks.task import Task

OVERALL = "overall"
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
        if column == OVERALL:
            columns.append(column)
        elif column_task(column) in tasks:
            _check_metric(study, column, tasks)
            columns.append(column)
    return columns


def _check_metric(study: Study, column: str, tasks: dict[str, Task]) -> None:
    task, metric = tasks[column_task(column)], column_metric(column, tasks)
    if metric_name(metric) not in [task_metric.name for task_metric in task.metrics]:
        raise UserError(
            f"{study.location('metrics')}: task '{column_task(column)}' is not measured by '{metric}'.",
            code="unknown-metric",
        )


def column_task(column: str) -> str:
    return column.partition(".")[0]


def column_metric(column: str, tasks: dict[str, Task]) -> str:
    return column.partition(".")[2] or primary(tasks[column_task(column)])


def column_title(column: str, tasks: dict[str, Task]) -> str:
    if column == OVERALL:
        return column
    return f"{column_task(column)} {column_metric(column, tasks)}"


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
    if column == OVERALL or column_task(column) not in tasks:
        return None
    return find(metric_name(column_metric(column, tasks)))


def metric_name(key: str) -> str:
    """'f1-per-class/1' or 'within(0.2)' → the metric's own name."""
    return key.partition("/")[0].partition("(")[0]
