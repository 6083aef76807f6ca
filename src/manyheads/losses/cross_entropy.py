"""Cross-entropy over classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from manyheads.losses.base import Loss
from manyheads.registry import register

if TYPE_CHECKING:
    from manyheads.tasks import Task


@register("losses", "cross-entropy", paper="all")
class CrossEntropy(Loss):
    """−log softmax(x)_y: one output per class, exactly one class is right.

    x: outputs [examples, classes]; y: class indices [examples].
    Relations: with two classes `binary-cross-entropy` does the same with one output.
    """

    def unfit(self, task: Task) -> str | None:
        return None if task.kind == "classification" else "'cross-entropy' needs classes, this task is a regression."

    def outputs(self, classes: int) -> int:
        return classes

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(outputs, labels, reduction="none")

    def predict(self, outputs: Tensor) -> Tensor:
        return torch.softmax(outputs, dim=-1)
