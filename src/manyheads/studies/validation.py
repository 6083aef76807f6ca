"""What is wrong with a study, found before anything is trained for a table that cannot be made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError, nearest
from manyheads.parts.metrics import metric_name
from manyheads.parts.metrics.base import find as find_metric
from manyheads.studies.columns import (
    OVERALL,
    OVERALL_READINGS,
    READINGS,
    check_metric,
    column_reading,
    column_task,
)
from manyheads.studies.config import Overrides, Study
from manyheads.studies.margins import check_mean, counted_tasks
from manyheads.studies.variants import Row
from manyheads.tasks.load import load_tasks
from manyheads.tasks.task import Task

NO_CLASSES = "has no classes that could be taken for one another"


def check_overrides(study: Study, overrides: Overrides) -> None:
    """The command line may change what all rows have in common, not what tells them apart."""
    for name, variant in study.variants.items():
        for key in variant.keys:
            for overridden in overrides:
                if _overlap(overridden, key):
                    raise UserError(
                        f"command line: {overridden}: row '{name}' sets {key} itself, so it cannot be set for all "
                        "rows. Change it in the study's file, or in a copy of it.",
                        code="set-by-row",
                    )
        _check_row_tasks(name, variant.set.get("tasks"), overrides.get("tasks"))


def _check_row_tasks(name: str, row_tasks: Any, tasks: Any) -> None:
    """No row trains a task that the command line leaves out."""
    if not isinstance(tasks, list) or not isinstance(row_tasks, list):
        return
    for task in row_tasks:
        if task not in tasks and task != "{task}":
            raise UserError(f"command line: tasks: row '{name}' trains '{task}', which is left out.", code="set-by-row")


def _overlap(left_key: str, right_key: str) -> bool:
    """Whether two dotted keys are equal, or one holds the other; the list of tasks overlaps with no task's keys."""
    steps = list(zip(left_key.split("."), right_key.split("."), strict=False))
    if steps == [("tasks", "tasks")]:
        return False
    return all(left_step == right_step or "*" in (left_step, right_step) for left_step, right_step in steps)


def check_row_names(study: Study, rows: Sequence[Row]) -> None:
    """No two rows, baselines among them, may have one name."""
    names: set[str] = set()
    for row in rows:
        if row.name in names:
            raise UserError(f"{study.location('variants')}: two rows are called '{row.name}'.", code="repeated-row")
        names.add(row.name)


def check_columns(study: Study, columns: list[str], tasks: list[str]) -> None:
    """Every column names a task and, where it says so, a metric or what else is read of the task."""
    location = study.location("metrics")
    for column in columns:
        task, _, metric = column.partition(".")
        if task == OVERALL:
            _check_overall_column(location, column, metric)
            continue
        if task not in tasks:
            raise UserError(f"{location}: no task '{task}'.{nearest(task, [*tasks, OVERALL])}", code="unknown-task")
        if metric and metric not in READINGS:
            try:
                find_metric(metric_name(metric))
            except ValueError as fault:
                readings = ", ".join(f"{task}.{reading}" for reading in READINGS)
                message = f"{location}: {column}: {fault} A column may also be {readings}."
                raise UserError(message, code="unknown-metric") from None
    if study.layout == "confusion" and column_task(columns[0]) == OVERALL:
        raise UserError(
            f"{study.location('layout')}: 'confusion' is of one task; name it first in `metrics`.", code="no-task"
        )


def _check_overall_column(location: str, column: str, reading: str) -> None:
    if reading and reading not in OVERALL_READINGS:
        allowed = ", ".join(f"{OVERALL}.{name}" for name in OVERALL_READINGS)
        raise UserError(
            f"{location}: '{OVERALL}' has no metrics of its own, found '{column}'; there are {allowed}.",
            code="unknown-metric",
        )


def check_budgets(study: Study, recipes: Iterable[Recipe]) -> None:
    """A budget in minutes is another one on every machine, and at every moment."""
    for recipe in recipes:
        budget = recipe.training.budget
        if budget is not None and budget.minutes is not None:
            raise UserError(
                f"{study.location('base')}: training.budget: minutes differ from run to run, so rows could not be "
                "compared; name passes, examples or steps.",
                code="minutes-in-study",
            )


def check_readings(study: Study, columns: list[str], recipes: Iterable[Recipe]) -> None:
    """Every run of a task must measure what a column reads of it."""
    location = study.location("metrics")
    for recipe in recipes:
        for column in columns:
            task, reading = column_task(column), column_reading(column)
            if task not in recipe.tasks:
                continue
            if reading == "train" and recipe.evaluate.train_examples is None:
                raise UserError(
                    f"{location}: '{column}' needs metrics on train, which are not measured; set "
                    "evaluate.train_examples, such as `set: {evaluate.train_examples: 500}`.",
                    code="train-not-measured",
                )
            if reading == "best" and recipe.evaluate.select is not None:
                raise UserError(
                    f"{location}: '{column}' is read from evaluations while training, which are not of dev with "
                    "evaluate.select; leave out one of the two.",
                    code="dev-not-evaluated",
                )


def check_not_worse(study: Study, base: Recipe, tasks_of_rows: dict[str, list[str]]) -> None:
    """Margins name a row that trains every task of the mean, and tasks that there are (row → its tasks)."""
    request = study.not_worse
    if request is None:
        return
    location = study.location("not_worse", "than")
    if study.layout == "confusion":
        message = f"{study.location('not_worse')}: the layout 'confusion' has no verdicts; leave out one of the two."
        raise UserError(message, code="no-verdicts")
    for name in request.tasks:
        if name not in base.tasks:
            message = f"{study.location('not_worse', 'tasks', name)}: no task '{name}'.{nearest(name, base.tasks)}"
            raise UserError(message, code="unknown-task")
    if request.than not in tasks_of_rows:
        if study._has_all_variants:
            message = f"{location}: no row '{request.than}'.{nearest(request.than, tasks_of_rows)}"
            raise UserError(message, code="unknown-row")
        return  # this scale leaves it out, and has no verdicts
    absent = [name for name in counted_tasks(base) if name not in tasks_of_rows[request.than]]
    if absent:
        message = (
            f"{location}: row '{request.than}' does not train {', '.join(absent)}, so it has no mean of all tasks."
        )
        raise UserError(message, code="tasks-missing")
    if len(tasks_of_rows) == 1 and study._has_all_variants:
        message = f"{location}: there is no other row that could be held against '{request.than}'."
        raise UserError(message, code="nothing-to-compare")


def check_published(study: Study, columns: list[str], row_names: list[str]) -> None:
    """Published figures belong to a row and a column, in the form that the layout wants."""
    by_layer = any("layer" in variant.each for variant in study.variants.values())
    # a layer that only the paper's encoder has, or a row of another scale, is not misspelt
    check_names = study._has_all_variants and not by_layer
    for row, figures in study.published.items():
        location = study.location("published", row)
        if check_names and row not in row_names:
            raise UserError(f"{location}: no row '{row}'.{nearest(row, row_names)}", code="unknown-row")
        if study.layout == "confusion" and isinstance(figures, dict):
            raise UserError(
                f"{location}: expected rows of counts, for the layout is 'confusion'.", code="published-figures"
            )
        if study.layout == "rows" and not isinstance(figures, dict):
            raise UserError(
                f"{location}: expected figures by column, such as {{sst: .52}}, for the layout is 'rows'.",
                code="published-figures",
            )
        if isinstance(figures, dict):
            _check_published_columns(study, row, list(figures), columns)


def _check_published_columns(study: Study, row: str, published: list[str], columns: list[str]) -> None:
    for column in published:
        if column not in columns:
            location = study.location("published", row, column)
            raise UserError(f"{location}: no column '{column}'.{nearest(column, columns)}", code="unknown-column")


def check_metrics(study: Study, base: Recipe) -> None:
    """Whether tasks have the metrics that the table shows. Reads their data, so it is done before training only."""
    columns = study.metrics or []
    dotted = [column for column in columns if "." in column and column_reading(column) is None]
    if not dotted and study.layout == "rows" and study.not_worse is None:
        return
    tasks = {name: data.task for name, data in load_tasks(base).items()}
    for column in dotted:
        if column_task(column) in tasks:
            check_metric(study, column, tasks[column_task(column)])
    check_mean(study, base, tasks)
    if study.layout == "confusion":
        first_task = (columns or list(tasks))[0].partition(".")[0]
        if first_task in tasks:
            _check_confusion(study, tasks[first_task])


def _check_confusion(study: Study, task: Task) -> None:
    if not task.kind.exclusive:
        raise UserError(f"{study.location('layout')}: task '{task.name}' {NO_CLASSES}.", code="no-classes")
    classes = len(task.labels.names)
    for row, counts in study.published.items():
        if len(counts) != classes:
            raise UserError(
                f"{study.location('published', row)}: expected {classes} rows of {classes} counts, one for each class "
                f"of '{task.name}', found {len(counts)}.",
                code="published-figures",
            )
