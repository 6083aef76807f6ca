"""Two runs on the same dev examples: what differs, how sure that is, and which examples changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyheads.parts.metrics import primary
from manyheads.parts.metrics.base import find
from manyheads.reports.errors import shown
from manyheads.reports.facts import RunFacts, TaskPredictions
from manyheads.studies.bootstrap import drawn_metric
from manyheads.studies.statistics import Difference, Verdict, difference, verdicts

SHOWN = 8  # examples of each direction
UNCHANGED = ("name", "output", "description", "report", "trackers")  # settings that make no difference


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
class Changed:
    """An example that was answered differently."""

    texts: tuple[str, ...]
    true: str
    before: str
    after: str
    size: float  # how much better or worse: chance of the true class, or distance from the true value


@dataclass(frozen=True)
class Direction:
    """Examples that became better, or worse."""

    count: int
    worst: list[Changed]  # those that changed most


def comparable(before: RunFacts, after: RunFacts) -> tuple[list[str], list[str]]:
    """Tasks that both runs answered on the same dev examples; and a sentence for each that they did not."""
    tasks, notes = [], []
    for task in after.predictions:
        if task not in before.predictions:
            notes.append(f"Task {task} is in {after.name} only.")
        elif before.metrics["data"][f"{task} dev"] != after.metrics["data"][f"{task} dev"]:
            notes.append(f"Task {task} cannot be compared: the runs were measured on different dev examples.")
        else:
            tasks.append(task)
    notes += [f"Task {task} is in {before.name} only." for task in before.predictions if task not in after.predictions]
    return tasks, notes


def metric_changes(before: RunFacts, after: RunFacts, tasks: list[str]) -> list[MetricChange]:
    """The primary metric of every task; what is said of them holds for all together (Holm)."""
    found = []
    for task in tasks:
        metric = primary(after.predictions[task].task)
        dev = after.metrics["data"][f"{task} dev"]
        values = [one.metrics["dev"]["metrics"][task].get(metric) for one in (before, after)]
        if None in values:
            continue
        drawn = [
            drawn_metric(
                one.predictions[task].task, metric, one.predictions[task].predictions, one.predictions[task].labels, dev
            )
            for one in (before, after)
        ]
        defined = np.isfinite(drawn[0]) & np.isfinite(drawn[1])
        if defined.sum() > 1:
            change = difference([values[1]], [values[0]], drawn[1][None, defined], drawn[0][None, defined])
            found.append(MetricChange(task, metric, values[0], values[1], change))
    high = [find(one.metric.partition("/")[0].partition("(")[0]).best == "high" for one in found]
    for one, verdict in zip(found, verdicts([one.difference for one in found], high), strict=True):
        one.verdict = verdict
    return found


def example_changes(before: TaskPredictions, after: TaskPredictions) -> dict[str, Direction]:
    """'better' and 'worse' examples: those that became right or wrong, of several classes those with more or fewer
    right, of numbers those that came nearer or went farther by a tenth of the scale. Those that changed most first."""
    closer = _closeness(after) - _closeness(before)
    if before.task.kind == "regression":
        low, high = before.task.bounds or (float(before.labels.min()), float(before.labels.max()))
        gain = np.where(np.abs(closer) > (high - low) / 10, closer, 0.0)
    else:
        gain = _right(after) - _right(before)
    return {
        "better": _direction(before, after, gain > 0, closer),
        "worse": _direction(before, after, gain < 0, -closer),
    }


def changed_settings(before: RunFacts, after: RunFacts) -> list[dict[str, str]]:
    """Settings in which the two recipes differ."""
    one, other = (
        dict(_flat(facts.run.recipe.model_dump(mode="json", exclude=set(UNCHANGED)))) for facts in (before, after)
    )
    rows = [
        {"setting": key, before.label: _said(one, key), after.label: _said(other, key)}
        for key in dict.fromkeys([*one, *other])
        if one.get(key) != other.get(key) and not _of_a_missing_task(key, before, after)
    ]
    for task in dict.fromkeys([*before.run.recipe.tasks, *after.run.recipe.tasks]):
        has = ["yes" if task in facts.run.recipe.tasks else "–" for facts in (before, after)]
        if "–" in has:
            rows.append({"setting": f"task {task}", before.label: has[0], after.label: has[1]})
    return rows


# --- one example ------------------------------------------------------------------------------------------------


def _closeness(one: TaskPredictions) -> np.ndarray:
    """[rows] the chance of what is true, or minus the distance from it."""
    if one.task.kind == "regression":
        return -np.abs(one.predictions - one.labels)
    if one.task.kind == "multi-label":
        return np.where(one.labels == 1, one.predictions, 1 - one.predictions).mean(axis=1)
    return one.predictions[np.arange(len(one.labels)), one.labels]


def _right(one: TaskPredictions) -> np.ndarray:
    """[rows] how many classes are answered rightly: of one class 0 or 1."""
    return (one.guesses == one.labels).reshape(len(one.labels), -1).sum(axis=1)


def _direction(before: TaskPredictions, after: TaskPredictions, chosen: np.ndarray, size: np.ndarray) -> Direction:
    rows = np.flatnonzero(chosen)
    most: Sequence[int] = rows[np.argsort(-size[rows], kind="stable")][:SHOWN].tolist() if after.texts else []
    return Direction(
        len(rows),
        [
            Changed(
                after.texts[row],
                shown(after, after.labels[row]),
                shown(before, before.guesses[row]),
                shown(after, after.guesses[row]),
                float(size[row]),
            )
            for row in most
        ],
    )


def _of_a_missing_task(key: str, before: RunFacts, after: RunFacts) -> bool:
    first, _, rest = key.partition(".")
    task = rest.partition(".")[0]
    return first == "tasks" and not (task in before.run.recipe.tasks and task in after.run.recipe.tasks)


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from _flat(one, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _said(settings: dict[str, Any], key: str) -> str:
    return str(settings[key]) if key in settings else "–"
