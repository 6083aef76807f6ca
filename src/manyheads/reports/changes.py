"""Two runs on the same dev examples: what differs, how sure that is, and which examples changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyheads.inference.bootstrap import drawn_metric
from manyheads.parts.metrics import metric_name, primary
from manyheads.parts.metrics.base import find as find_metric
from manyheads.reports.facts import RunFacts
from manyheads.reports.task_predictions import TaskPredictions
from manyheads.studies.statistics import Difference, Verdict, difference, verdicts

EXAMPLES_LISTED = 8  # in each direction
NOT_COMPARED = {"name", "output", "description", "report", "trackers"}  # settings without effect on a model
ABSENT = "–"


@dataclass
class MetricChange:
    """One metric of a task in both runs."""

    task: str
    metric: str
    before: float
    after: float
    difference: Difference
    verdict: Verdict = "not distinguishable"


@dataclass(frozen=True)
class ChangedExample:
    """An example whose prediction changed."""

    texts: tuple[str, ...]
    true: str
    before: str
    after: str
    size: float  # how much better or worse: probability of the label, or distance from it


@dataclass(frozen=True)
class Direction:
    """Examples that became better, or worse."""

    count: int
    largest: list[ChangedExample]  # those that changed most


def comparable_tasks(before: RunFacts, after: RunFacts) -> tuple[list[str], list[str]]:
    """Tasks that both runs predict for the same dev examples; and a note for each other task."""
    tasks, notes = [], []
    for task in after.predictions:
        if task not in before.predictions:
            notes.append(f"Task {task} is in {after.name} only.")
        elif before.metrics["data"][f"{task} dev"] != after.metrics["data"][f"{task} dev"]:
            notes.append(f"Task {task} cannot be compared: the runs were measured on different dev examples.")
        else:
            tasks.append(task)
    for task in before.predictions:
        if task not in after.predictions:
            notes.append(f"Task {task} is in {before.name} only.")
    return tasks, notes


def metric_changes(before: RunFacts, after: RunFacts, tasks: list[str]) -> list[MetricChange]:
    """The primary metric of every task. Verdicts hold for all tasks together (Holm)."""
    changes: list[MetricChange] = []
    high_is_best: list[bool] = []
    for task in tasks:
        change = _metric_change(before, after, task)
        if change is not None:
            changes.append(change)
            high_is_best.append(find_metric(metric_name(change.metric)).best == "high")
    differences = [change.difference for change in changes]
    for change, verdict in zip(changes, verdicts(differences, high_is_best), strict=True):
        change.verdict = verdict
    return changes


def _metric_change(before: RunFacts, after: RunFacts, task: str) -> MetricChange | None:
    """None where the metric is undefined."""
    metric = primary(after.predictions[task].task)
    dev = after.metrics["data"][f"{task} dev"]
    values, draws = [], []
    for facts in (before, after):
        predictions = facts.predictions[task]
        values.append(facts.metrics["dev"]["metrics"][task].get(metric))
        draws.append(drawn_metric(predictions.task, metric, predictions.predictions, predictions.labels, dev))
    if None in values:
        return None
    defined = np.isfinite(draws[0]) & np.isfinite(draws[1])
    if defined.sum() < 2:
        return None
    change = difference([values[1]], [values[0]], draws[1][None, defined], draws[0][None, defined])
    return MetricChange(task, metric, values[0], values[1], change)


def example_changes(before: TaskPredictions, after: TaskPredictions) -> dict[str, Direction]:
    """'better' and 'worse' examples, those that changed most first.

    An example changes if its prediction becomes correct or wrong; for a multi-label task, if more or fewer classes
    are correct; for a regression, if it moves nearer or farther by more than a tenth of the scale.
    """
    closer = after.closeness - before.closeness
    if before.is_regression:
        low, high = before.value_range
        gain = np.where(np.abs(closer) > (high - low) / 10, closer, 0.0)
    else:
        gain = after.correct_classes - before.correct_classes
    return {
        "better": _direction(before, after, gain > 0, closer),
        "worse": _direction(before, after, gain < 0, -closer),
    }


def _direction(before: TaskPredictions, after: TaskPredictions, mask: np.ndarray, size: np.ndarray) -> Direction:
    rows = np.flatnonzero(mask)
    direction = Direction(len(rows), [])
    if not after.texts:
        return direction
    before_labels, after_labels = before.predicted_labels, after.predicted_labels
    for row in rows[np.argsort(-size[rows], kind="stable")][:EXAMPLES_LISTED].tolist():
        example = ChangedExample(
            texts=after.texts[row],
            true=after.label_text(after.labels[row]),
            before=before.label_text(before_labels[row]),
            after=after.label_text(after_labels[row]),
            size=float(size[row]),
        )
        direction.largest.append(example)
    return direction


# --- settings -------------------------------------------------------------------------------------------------------


def changed_settings(before: RunFacts, after: RunFacts) -> list[dict[str, str]]:
    """Settings in which the two recipes differ."""
    before_settings, after_settings = _flat_settings(before), _flat_settings(after)
    before_tasks, after_tasks = before.run.recipe.tasks, after.run.recipe.tasks
    all_tasks = list(dict.fromkeys([*before_tasks, *after_tasks]))
    missing_tasks = [task for task in all_tasks if task not in before_tasks or task not in after_tasks]
    rows = []
    for key in dict.fromkeys([*before_settings, *after_settings]):
        if _task_of(key) in missing_tasks or before_settings.get(key) == after_settings.get(key):
            continue
        before_value, after_value = before_settings.get(key, ABSENT), after_settings.get(key, ABSENT)
        rows.append({"setting": key, before.label: str(before_value), after.label: str(after_value)})
    for task in missing_tasks:
        presence = {"setting": f"task {task}", before.label: ABSENT, after.label: ABSENT}
        for facts in (before, after):
            if task in facts.run.recipe.tasks:
                presence[facts.label] = "yes"
        rows.append(presence)
    return rows


def _flat_settings(facts: RunFacts) -> dict[str, Any]:
    """'training.epochs' → 3."""
    return dict(_flatten(facts.run.recipe.model_dump(mode="json", exclude=NOT_COMPARED)))


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict) or not value:
        yield path, value
        return
    for key, nested in value.items():
        yield from _flatten(nested, f"{path}.{key}".removeprefix("."))


def _task_of(key: str) -> str | None:
    """The task that a setting belongs to: 'sst' of 'tasks.sst.loss'."""
    names = key.split(".")
    if names[0] == "tasks" and len(names) > 1:
        return names[1]
    return None
