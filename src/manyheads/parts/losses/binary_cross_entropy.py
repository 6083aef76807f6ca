"""Cross-entropy of yes-or-no outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from manyheads.parts.losses.base import Loss, Weights, weigh_classes
from manyheads.registry import register

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("losses", "binary-cross-entropy", paper="all")
class BinaryCrossEntropy(Loss):
    """−w_y·[y·log σ(x) + (1 − y)·log(1 − σ(x))]: one output for two classes, or one per class of a multi-label task.

    x: outputs [examples, 1], or [examples, classes]; y: 0 or 1; σ: the logistic function.
    With several classes: −1/C·Σ_c [w_c·y_c·log σ(x_c) + (1 − y_c)·log(1 − σ(x_c))], any number of classes being right.
    w (`class_weights`): 'balanced' gives N/(2·n_y), or (N − n_c)/n_c with several classes; or a list in the order of
    the classes, or a map from class names; 1 by default.
    Of a teacher's probabilities q: Σ_y q_y·(the above), and with several classes q_c for y_c.
    Relations: `cross-entropy` with outputs (0, x) gives the same value for two classes.
    """

    label_types = ("class", "ordered class", "class set")
    reads_soft_targets = True

    def __init__(self, task: Task, *, class_weights: Weights | None = None) -> None:
        super().__init__(task)
        self.several = not task.kind.exclusive
        self.weights = weigh_classes(task, class_weights)

    @classmethod
    def why_incompatible(cls, task: Task) -> str | None:
        if task.kind.exclusive and len(task.labels.names) != 2:
            return (
                f"'{task.loss.name}' needs exactly two classes, this task has {len(task.labels.names)}; "
                "use 'cross-entropy'."
            )
        return super().why_incompatible(task)

    @property
    def outputs(self) -> int:
        return super().outputs if self.several else 1

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        if self.several:
            return self.soft(outputs, labels.to(outputs.dtype))
        values = F.binary_cross_entropy_with_logits(outputs[:, 0], labels.to(outputs.dtype), reduction="none")
        return values if self.weights is None else values * self.weights.to(outputs)[labels]

    def soft(self, outputs: Tensor, targets: Tensor) -> Tensor:
        weights = None if self.weights is None else self.weights.to(outputs)
        if self.several:
            values = F.binary_cross_entropy_with_logits(outputs, targets, reduction="none", pos_weight=weights)
            return values.mean(dim=-1)
        if weights is not None:
            targets = targets * weights
        # log σ(x) and log(1 − σ(x)) = log σ(−x), each weighed by what the teacher gives its class
        return -(targets[:, 1] * F.logsigmoid(outputs[:, 0]) + targets[:, 0] * F.logsigmoid(-outputs[:, 0]))

    def predict(self, outputs: Tensor) -> Tensor:
        if self.several:
            return torch.sigmoid(outputs)
        yes = torch.sigmoid(outputs[:, 0])
        return torch.stack([1 - yes, yes], dim=-1)
