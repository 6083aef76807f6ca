"""How good a model's predictions of labelled examples are: metrics with intervals, and what was left out. No torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from manyheads.data.dataset import Dataset
from manyheads.errors import UserError
from manyheads.inference.intervals import Interval, metric_intervals
from manyheads.parts.metrics import score
from manyheads.storage.ragged import Column
from manyheads.tasks.task import Task


@dataclass(frozen=True)
class TaskScore:
    """One task's predictions of its labelled examples, and their metrics."""

    task: Task
    predictions: Column
    labels: Column
    left_out: dict[str, int] = field(default_factory=dict)  # why → how many rows of its data were not measured

    @cached_property
    def metrics(self) -> dict[str, float | None]:
        return score(self.task, self.predictions, self.labels)

    @cached_property
    def intervals(self) -> dict[str, Interval | None]:
        """The 95 % interval of each metric; see `metric_intervals`."""
        return metric_intervals(self.task, self.metrics, self.predictions, self.labels)

    @property
    def loss(self) -> float:
        return self.task.kind.plain_loss(self.predictions, self.labels, self.task)


@dataclass(frozen=True)
class Scores:
    """Metrics of a model's tasks, their 95 % intervals, on how many rows they stand, and what was left out.

    Intervals are worked out when they are asked for.
    """

    tasks: dict[str, TaskScore]
    unmeasured: dict[str, str]  # task → why it was not measured
    overall: float | None = None  # None where not all tasks were measured, or no recipe says how to take their mean

    @property
    def metrics(self) -> dict[str, dict[str, float | None]]:
        return {name: task.metrics for name, task in self.tasks.items()}

    @property
    def intervals(self) -> dict[str, dict[str, Interval | None]]:
        return {name: task.intervals for name, task in self.tasks.items()}

    @property
    def examples(self) -> dict[str, int]:
        return {name: len(task.labels) for name, task in self.tasks.items()}

    @property
    def losses(self) -> dict[str, float]:
        return {name: task.loss for name, task in self.tasks.items()}

    @property
    def left_out(self) -> dict[str, dict[str, int]]:
        """Task → why → how many rows of its data were not measured."""
        return {name: task.left_out for name, task in self.tasks.items()}

    def to_json(self) -> dict[str, Any]:
        names = ("metrics", "intervals", "overall", "examples", "losses", "left_out", "unmeasured")
        return {name: getattr(self, name) for name in names}


def score_rows(task: Task, examples: Dataset, predictions: Column) -> TaskScore:
    """`predictions` are those of the labelled rows."""
    assert examples.labels is not None
    return TaskScore(task, predictions, examples.labels[examples.labelled_rows], why_left_out(examples))


def why_left_out(examples: Dataset) -> dict[str, int]:
    """Why → how many rows of a task's data are not measured, with the place of the first one that is bad."""
    counts: dict[str, int] = {}
    places: dict[str, str] = {}
    for row in examples.bad:
        counts[row.reason] = counts.get(row.reason, 0) + 1
        places.setdefault(row.reason, f"{examples.raw.sources[row.file]}:{row.line}")
    left_out = {f"{reason} ({places[reason]})": count for reason, count in counts.items()}
    bad_labels = len(examples.bad) - len(examples.raw.bad)  # of rows that are kept, unlabelled
    unlabelled = len(examples) - len(examples.labelled_rows) - bad_labels
    if unlabelled > 0:
        left_out["no label"] = unlabelled
    return left_out


def nothing_to_evaluate(subject: str, unmeasured: dict[str, str]) -> UserError:
    """What to say where no task could be measured."""
    reasons = "".join(f"\n  {name}: {reason}" for name, reason in unmeasured.items())
    return UserError(f"{subject}: no task could be evaluated:{reasons}", code="nothing-to-evaluate")
