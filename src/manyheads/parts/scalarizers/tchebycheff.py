"""The worst loss counts most, smoothly: "Smooth Tchebycheff Scalarization for Multi-Objective Optimization" (2024)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from manyheads.parts.scalarizers.base import Scalarizer
from manyheads.parts.task_names import check_tasks
from manyheads.registry import NotNegative, Positive, TaskName, register


@register("scalarizers", "smooth-tchebycheff")
class SmoothTchebycheff(Scalarizer):
    """μ·ln Σ exp(λ_i·(L_i − z_i)/μ): near the largest λ_i·(L_i − z_i), the nearer the smaller μ.

    λ is 1/T for each of the T tasks present, times the weight given; z is the best loss hoped for (`goal`, 0).
    """

    affine = False

    def __init__(
        self,
        tasks: Sequence[str],
        *,
        mu: Positive = 0.1,
        weights: dict[TaskName, NotNegative] = {},  # noqa: B006 (read only)
        goal: dict[TaskName, float] = {},  # noqa: B006
    ) -> None:
        super().__init__(tasks)
        check_tasks("weights", list(weights), tasks)
        check_tasks("goal", list(goal), tasks)
        self.mu, self.weights, self.goal = mu, weights, goal

    def forward(self, losses: dict[str, Tensor]) -> Tensor:
        share = 1 / len(losses)
        terms = [
            share * self.weights.get(task, 1.0) * (loss - self.goal.get(task, 0.0)) for task, loss in losses.items()
        ]
        return self.mu * torch.logsumexp(torch.stack(terms) / self.mu, dim=0)
