"""Mean squared error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from manyheads.losses.base import Loss
from manyheads.registry import register

if TYPE_CHECKING:
    from manyheads.tasks import Task


@register("losses", "mse", paper="all")
class MeanSquaredError(Loss):
    """(x − y)²: one output that estimates the label itself.

    x: outputs [examples, 1]; y: labels in their own units [examples].
    """

    def unfit(self, task: Task) -> str | None:
        return None if task.kind == "regression" else "'mse' needs numbers, this task is a classification."

    def outputs(self, classes: int) -> int:
        return 1

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return (outputs[:, 0] - labels.to(outputs.dtype)) ** 2

    def predict(self, outputs: Tensor) -> Tensor:
        return outputs[:, 0]
