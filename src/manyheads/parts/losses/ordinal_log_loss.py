"""Ordinal log-loss: a wrong class costs more the further it is from the right one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from manyheads.parts.losses.base import Loss
from manyheads.registry import Positive, register

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("losses", "ordinal-log-loss", paper="E")
class OrdinalLogLoss(Loss):
    """−Σ_i log(1 − p_i)·|y − i|^α: probability on far classes costs most.

    p = softmax(x), x: outputs [examples, classes]; y: class indices [examples]; the classes are in order;
    α (`alpha`): how fast the cost grows with the distance. Paper E prints no α; 1.5 is our default.
    Relations: `cross-entropy` treats all wrong classes alike; with two classes and any α this loss equals it.
    """

    label_types = ("class", "ordered class")

    def __init__(self, task: Task, *, alpha: Positive = 1.5) -> None:
        super().__init__(task)
        self.alpha = alpha

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        classes = torch.arange(outputs.shape[1], device=outputs.device)
        # log(1 − p_i) = logsumexp of the other outputs − logsumexp of all: exact where p_i is near 1
        same = torch.eye(outputs.shape[1], dtype=torch.bool, device=outputs.device)
        others = outputs[:, None, :].masked_fill(same, float("-inf")).logsumexp(dim=-1)
        distance = (labels[:, None] - classes).abs().to(outputs.dtype)
        return -((others - outputs.logsumexp(dim=-1, keepdim=True)) * distance**self.alpha).sum(dim=-1)
