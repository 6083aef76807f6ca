"""A task's metrics, which value is better, and the overall score of all tasks."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from manyheads.config.part import PartConfig
from manyheads.parts.metrics.base import find
from manyheads.storage.ragged import Column, Ragged

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

Form = Literal["arithmetic", "geometric"]


def default_metrics(task: Task) -> tuple[PartConfig, ...]:
    """What a task is measured by where its recipe does not say; the first is the primary one."""
    return tuple(PartConfig(name=name) for name in task.kind.default_metrics(task))


def score(task: Task, predicted: Column, labels: Column) -> dict[str, float | None]:
    """The task's metrics by key, the primary one first; None where one is undefined.

    Undefined are a correlation with a constant, AUC of one class alone, everything without examples or with predictions
    that are not finite. See `Metric` for what `predicted` and `labels` hold.
    """
    numbers = predicted.values if isinstance(predicted, Ragged) else predicted
    usable = len(labels) > 0 and bool(np.isfinite(numbers).all())
    measured = task.kind.measured(predicted, labels)
    values: dict[str, float | None] = {}
    for metric_config in task.metrics or default_metrics(task):
        value: float | dict[str, float] = dict.fromkeys(_entries(metric_config, task), math.nan)
        if usable:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an undefined value is reported as such, not warned of
                value = find(metric_config.name)(*measured, task, **metric_config.options)
        for entry, number in (value if isinstance(value, dict) else {"": value}).items():
            values[_key(metric_config, entry)] = float(number) if math.isfinite(number) else None
    return values


def primary(task: Task) -> str:
    """The key in `score` of the metric by which the task's models are chosen."""
    metric_config = _primary_metric(task)
    return _key(metric_config, _entries(metric_config, task)[0])


def metric_name(key: str) -> str:
    """'f1-per-class/1' or 'within(0.2)' → the metric's own name."""
    return key.partition("/")[0].partition("(")[0]


def measured_by(task: Task, metric: str) -> Task:
    """The task with nothing but the metric of that key; with its default options where the task does not name it."""
    name = metric_name(metric)
    metrics = tuple(task_metric for task_metric in task.metrics if task_metric.name == name)
    return replace(task, metrics=metrics or (PartConfig(name=name),))


def better(task: Task, new: float | None, old: float | None) -> bool:
    """Whether a value of the primary metric beats another. Undefined is worse than any number."""
    if new is None or old is None:
        return new is not None
    return new > old if find(_primary_metric(task).name).best == "high" else new < old


def worse_by(task: Task, value: float | None, peak: float | None) -> float:
    """How far a value of the primary metric is behind a better one; 0 where it is not."""
    if peak is None:
        return 0.0
    if value is None:
        return math.inf
    behind = peak - value if find(_primary_metric(task).name).best == "high" else value - peak
    return max(0.0, behind)


def overall(
    scores: dict[str, dict[str, float | None]],
    tasks: dict[str, Task],
    form: Form = "arithmetic",
    weights: dict[str, float] | None = None,
) -> float:
    """Σ w·s / Σ w, or Π s^(w / Σ w) for the geometric form, over the tasks' primary metrics; higher is better.

    w: the task's weight, 1 where none is given. s: the metric v brought to 0 to 1, by its scale:
    share: v, or 1 − v where low is best; correlation: (1 + v)/2, and max(v, 0) in the geometric form;
    error: 1/(1 + v). Undefined is the worst: s = 0, but r = 0 for a correlation.
    The arithmetic form is papers A's and E's overall, the geometric one paper B's.
    """
    given = weights or {}
    shares = {name: _share(task, scores[name][primary(task)], form) for name, task in tasks.items()}
    weight = {name: given.get(name, 1.0) for name in tasks}
    total = sum(weight.values())
    if form == "geometric":
        return math.prod(share ** (weight[name] / total) for name, share in shares.items())
    return sum(weight[name] * share for name, share in shares.items()) / total


def _share(task: Task, value: float | None, form: Form) -> float:
    """A primary metric's value on the scale of the overall score."""
    metric = find(_primary_metric(task).name)
    if metric.scale == "correlation":
        r = value or 0.0
        return max(r, 0.0) if form == "geometric" else (1 + r) / 2
    if value is None:
        return 0.0
    if metric.scale == "error":
        return 1 / (1 + value)
    return value if metric.best == "high" else 1 - value


def _primary_metric(task: Task) -> PartConfig:
    return (task.metrics or default_metrics(task))[0]


def _entries(metric_config: PartConfig, task: Task) -> tuple[str, ...]:
    """What a metric has a number for: each class by name, or just ''."""
    return task.kind.scored_names(task) if find(metric_config.name).per_class else ("",)


def _key(metric_config: PartConfig, entry: str) -> str:
    """'within', 'within(tolerance=0.1)', 'f1-per-class/positive'."""
    options = ", ".join(f"{name}={value}" for name, value in metric_config.options.items())
    return metric_config.name + (f"({options})" if options else "") + (f"/{entry}" if entry else "")
