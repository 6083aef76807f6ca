"""What becomes of a head's outputs before loss and prediction see them. All in one file: each is one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from manyheads.registry import register

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

SURE = 1e-6  # a probability stays this far from 0 and 1, so that its logarithm is finite


class Output(nn.Module):
    """Outputs [examples, outputs] → the same. `low`, `high`: the task's range as its loss sees it."""

    @classmethod
    def why_incompatible(cls, task: Task) -> str | None:
        """Why it cannot serve the task, or None."""
        if task.kind.has_classes:
            return f"output '{task.output.name}' needs numbers, this task has classes."
        if task.kind.per_candidate or task.kind.per_token:
            return f"output '{task.output.name}' needs numbers, this task is {task.kind.called}."
        return None

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.low, self.high = task.scaled_bounds


@register("outputs", "raw", paper="B")
class Raw(Output):
    """x: the head's outputs as they are."""

    @classmethod
    def why_incompatible(cls, task: Task) -> str | None:
        return None

    def forward(self, x: Tensor) -> Tensor:
        return x


@register("outputs", "clamp", paper="B")
class Clamp(Output):
    """min(max(x, lo), hi): an output beyond the range counts as the range's end, and teaches nothing there."""

    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(self.low, self.high)


@register("outputs", "sigmoid", paper="B")
class Sigmoid(Output):
    """lo + (hi − lo)·σ(x): outputs lie within the range, and learn everywhere."""

    def forward(self, x: Tensor) -> Tensor:
        return self.low + (self.high - self.low) * torch.sigmoid(x)


@register("outputs", "similarity", paper="C, D, E")
class Similarity(Output):
    """lo + (hi − lo)·s for numbers, log(s/(1 − s)) for two classes: what becomes of a similarity s from 0 to 1.

    s is kept within [1e-6, 1 − 1e-6] before its log-odds are taken, so that `binary-cross-entropy` sees p = s.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.numbers = not task.kind.has_classes

    @classmethod
    def why_incompatible(cls, task: Task) -> str | None:
        return None

    def forward(self, x: Tensor) -> Tensor:
        return self.low + (self.high - self.low) * x if self.numbers else torch.logit(x, eps=SURE)
