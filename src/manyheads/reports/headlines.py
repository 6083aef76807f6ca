"""What a report says of each task first: its primary metric, how sure that is, and what it stands beside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyheads.parts.metrics import primary
from manyheads.reports.facts import RunFacts
from manyheads.reports.intervals import wilson_interval
from manyheads.reports.sharing import effect_of_sharing
from manyheads.reports.task_predictions import TaskPredictions
from manyheads.studies.bootstrap import drawn_metric


@dataclass(frozen=True)
class Interval:
    """A 95 % interval over dev examples."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:.3f} to {self.high:.3f}"

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Headline:
    """A task's primary metric on dev with its 95 % interval over dev examples, and the effect of sharing on it."""

    task: str
    metric: str
    value: float | None
    interval: Interval | None
    examples: int
    sharing: str  # '' where no sibling run trained the task alone on the same dev examples
    baselines: dict[str, float | None]  # 'majority' → its value of the same metric; those that the run has measured


def headlines(facts: RunFacts) -> list[Headline]:
    headlines = []
    for task_name, predictions in facts.predictions.items():
        metric = primary(predictions.task)
        value = facts.metrics["dev"]["metrics"][task_name][metric]
        baselines = {title: metrics.get(metric) for title, metrics in facts.baselines(task_name).items()}
        headlines.append(
            Headline(
                task=task_name,
                metric=metric,
                value=value,
                interval=_interval(predictions, metric, value, facts.metrics["data"][f"{task_name} dev"]),
                examples=len(predictions.labels),
                sharing=effect_of_sharing(facts, task_name),
                baselines=baselines,
            )
        )
    return headlines


def _interval(predictions: TaskPredictions, metric: str, value: float | None, dev: str) -> Interval | None:
    """None where there is no interval. `dev` is the fingerprint of the dev data."""
    count = len(predictions.labels)
    draws = drawn_metric(predictions.task, metric, predictions.predictions, predictions.labels, dev)
    draws = draws[np.isfinite(draws)]
    low = high = 0.0
    if len(draws) > 1:
        low, high = np.quantile(draws, [0.025, 0.975])
    if metric == "accuracy" and value is not None:
        low, high = wilson_interval(value, count)
    if high > low and count > 1:
        return Interval(float(low), float(high))
    return None
