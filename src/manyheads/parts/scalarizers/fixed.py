"""Weights that the recipe names."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from manyheads.parts.scalarizers.base import Scalarizer
from manyheads.parts.task_names import check_tasks
from manyheads.registry import NotNegative, TaskName, register


@register("scalarizers", "fixed", paper="A")
class FixedWeights(Scalarizer):
    """Σ w_i·L_i with the weights given; a task that is not named has weight 1."""

    def __init__(self, tasks: Sequence[str], *, weights: dict[TaskName, NotNegative] = {}) -> None:  # noqa: B006 (read only)
        super().__init__(tasks)
        check_tasks("weights", list(weights), tasks)
        self.weights = weights

    def forward(self, losses: dict[str, Tensor]) -> Tensor:
        return torch.stack([self.weights.get(task, 1.0) * loss for task, loss in losses.items()]).sum()
