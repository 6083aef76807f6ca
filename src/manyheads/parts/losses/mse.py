"""Mean squared error."""

from __future__ import annotations

from torch import Tensor

from manyheads.parts.losses.base import Loss
from manyheads.registry import register


@register("losses", "mse", paper="all")
class MeanSquaredError(Loss):
    """(x − y)²: one output that estimates the label itself.

    x: outputs [examples, 1]; y: labels [examples], both on the task's `scale`.
    Of a teacher's value t the same, with t for y.
    Relations: `pearson-loss` and `cosent` only ask that predictions rise with the labels, which is what a correlation
    measures; `cosine-embedding` only whether a pair is similar or not.
    """

    label_types = ("number",)
    reads_soft_targets = True

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return (outputs[:, 0] - labels.to(outputs.dtype)) ** 2

    def soft(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self(outputs, targets)
