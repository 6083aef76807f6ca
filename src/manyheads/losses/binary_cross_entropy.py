"""Cross-entropy of one yes-or-no output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from manyheads.losses.base import Loss
from manyheads.registry import register

if TYPE_CHECKING:
    from manyheads.tasks import Task


@register("losses", "binary-cross-entropy", paper="all")
class BinaryCrossEntropy(Loss):
    """−[y·log σ(x) + (1 − y)·log(1 − σ(x))]: one output, two classes.

    x: outputs [examples, 1]; y: 0 or 1 [examples]; σ: the logistic function.
    Relations: `cross-entropy` with outputs (0, x) gives the same value.
    """

    def unfit(self, task: Task) -> str | None:
        if task.kind == "classification" and len(task.labels.names) == 2:
            return None
        found = f"{len(task.labels.names)} classes" if task.kind == "classification" else "a regression"
        return f"'binary-cross-entropy' needs exactly two classes, this task has {found}."

    def outputs(self, classes: int) -> int:
        return 1

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(outputs[:, 0], labels.to(outputs.dtype), reduction="none")

    def predict(self, outputs: Tensor) -> Tensor:
        yes = torch.sigmoid(outputs[:, 0])
        return torch.stack([1 - yes, yes], dim=-1)
