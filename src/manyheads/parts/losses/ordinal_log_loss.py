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
    Of a teacher's probabilities q: −Σ_i log(1 − p_i)·Σ_y q_y·|y − i|^α.
    Relations: `cross-entropy` treats all wrong classes alike; with two classes and any α this loss equals it.
    """

    label_types = ("class", "ordered class")
    reads_soft_targets = True

    def __init__(self, task: Task, *, alpha: Positive = 1.5) -> None:
        super().__init__(task)
        self.alpha = alpha

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        classes = torch.arange(outputs.shape[1], device=outputs.device)
        distance = (labels[:, None] - classes).abs().to(outputs.dtype)
        return self._weighted(outputs, distance**self.alpha)

    def soft(self, outputs: Tensor, targets: Tensor) -> Tensor:
        classes = torch.arange(outputs.shape[1], device=outputs.device)
        distance = (classes[:, None] - classes).abs().to(outputs.dtype)  # [y, i]
        return self._weighted(outputs, targets @ distance**self.alpha)

    def _weighted(self, outputs: Tensor, costs: Tensor) -> Tensor:
        """−Σ_i log(1 − p_i)·cost_i."""
        # log(1 − p_i) = logsumexp of the other outputs − logsumexp of all: exact where p_i is near 1
        same = torch.eye(outputs.shape[1], dtype=torch.bool, device=outputs.device)
        others = outputs[:, None, :].masked_fill(same, float("-inf")).logsumexp(dim=-1)
        return -((others - outputs.logsumexp(dim=-1, keepdim=True)) * costs).sum(dim=-1)
