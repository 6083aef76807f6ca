"""What a report says of each task first: its primary metric, how sure that is, and what it stands beside."""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.inference.intervals import metric_intervals
from manyheads.parts.metrics import measured_by, primary
from manyheads.reports.facts import RunFacts
from manyheads.reports.sharing import effect_of_sharing
from manyheads.storage.ragged import Column
from manyheads.tasks.task import Task


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
    for task_name, (task, predictions, labels) in facts.measured_tasks.items():
        metric = primary(task)
        value = facts.metrics["dev"]["metrics"][task_name][metric]
        baselines = {title: metrics.get(metric) for title, metrics in facts.baselines(task_name).items()}
        headlines.append(
            Headline(
                task=task_name,
                metric=metric,
                value=value,
                interval=_interval(task, metric, value, predictions, labels),
                examples=len(labels),
                sharing=effect_of_sharing(facts, task_name),
                baselines=baselines,
            )
        )
    return headlines


def _interval(task: Task, metric: str, value: float | None, predictions: Column, labels: Column) -> Interval | None:
    """None where there is no interval."""
    interval = metric_intervals(measured_by(task, metric), {metric: value}, predictions, labels)[metric]
    if interval is None:
        return None
    return Interval(*interval)
