"""Dual-objective cross-entropy: each class is a yes-or-no question of its own."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from manyheads.parts.losses.base import Loss
from manyheads.registry import register


@register("losses", "dual-cross-entropy", paper="E")
class DualCrossEntropy(Loss):
    """−Σ_c [y_c·log σ(x_c) + (1 − y_c)·log(1 − σ(x_c))]: the right class is pulled up and every other pushed down.

    x: outputs [examples, classes]; y_c: 1 for the right class, else 0; σ: the logistic function. The sum is over
    classes, so the loss is about as many times larger than `binary-cross-entropy` as there are classes.
    Of a teacher's probabilities q the same, with q_c for y_c.
    Relations: `cross-entropy` pushes the others down only through the softmax. Prediction is the largest output;
    probabilities are σ(x_c) / Σ σ(x).
    """

    label_types = ("class", "ordered class")
    reads_soft_targets = True

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return self.soft(outputs, F.one_hot(labels, outputs.shape[1]).to(outputs.dtype))

    def soft(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(outputs, targets, reduction="none").sum(dim=-1)

    def predict(self, outputs: Tensor) -> Tensor:
        return torch.softmax(F.logsigmoid(outputs), dim=-1)  # σ(x_c) / Σ σ(x), also where all of them underflow
