"""Cross-entropy over classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn import functional as F

from manyheads.data.labels import LabelType
from manyheads.parts.losses.base import Loss, Weights, weigh_classes
from manyheads.registry import Share, register

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("losses", "cross-entropy", paper="all")
class CrossEntropy(Loss):
    """w_y·[−(1 − ε)·log p_y − ε/C·Σ_c log p_c], plainly −log p_y: one output per class, exactly one is right.

    p = softmax(x), x: outputs [examples, classes]; y: class indices [examples]; C: number of classes.
    ε (`label_smoothing`): how much of the target is spread over all classes; 0 by default.
    w (`class_weights`): 'balanced' gives N/(C·n_c), so that every class weighs the same in all; or a list in the
    order of the classes, or a map from class names; 1 by default.
    Of a teacher's probabilities q: −Σ_c w_c·q_c·log p_c; they are soft already, so ε has no part in it.
    Relations: with two classes `binary-cross-entropy` does the same with one output; `ordinal-log-loss` knows that
    classes are in order; `dual-cross-entropy` pushes each wrong class down on its own.
    """

    label_types: tuple[LabelType, ...] = ("class", "ordered class")
    reads_soft_targets = True

    def __init__(self, task: Task, *, label_smoothing: Share = 0.0, class_weights: Weights | None = None) -> None:
        super().__init__(task)
        self.label_smoothing = label_smoothing
        self.weights = weigh_classes(task, class_weights)

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        values = F.cross_entropy(outputs, labels, reduction="none", label_smoothing=self.label_smoothing)
        return values if self.weights is None else values * self.weights.to(values)[labels]

    def soft(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if self.weights is not None:
            targets = targets * self.weights.to(targets)
        return -(targets * outputs.log_softmax(dim=-1)).sum(dim=-1)
