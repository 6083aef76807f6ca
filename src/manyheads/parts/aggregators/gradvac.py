"""Gradients bent until they agree as much as they usually do: "Gradient Vaccine" (2021)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from manyheads.parts.aggregators.base import Aggregator
from manyheads.registry import Share, register

HIGHEST = 0.99  # that is aimed at: to agree altogether would take endless lengths


@register("aggregators", "gradvac")
class GradVac(Aggregator):
    """Where cos(p, g_j) is below its running mean φ̂_ij, so much of g_j is added to p that it is not; then Σ p.

        p ← p + ‖p‖·(φ̂·√(1 − φ²) − φ·√(1 − φ̂²)) / (‖g_j‖·√(1 − φ̂²))·g_j,   φ = cos(p, g_j)
        φ̂_ij ← (1 − β)·φ̂_ij + β·φ

    once for every j ≠ i in random order, p starting as g_i. With φ̂ at 0 this is `pcgrad`. The running means belong
    to pairs of tasks by name, and wait while one of the two is absent.
    """

    targets: Tensor

    def __init__(self, tasks: Sequence[str], *, beta: Share = 0.5) -> None:
        super().__init__(tasks)
        self.beta = beta
        self.register_buffer("targets", torch.zeros(len(tasks), len(tasks), dtype=torch.float64))

    def forward(self, gramian: Tensor, present: Sequence[str]) -> Tensor:
        size = len(present)
        location = [self.tasks.index(task) for task in present]
        rows = torch.eye(size, dtype=gramian.dtype)  # p_i = Σ_k rows[i, k]·g_k
        norms = gramian.diagonal().clamp(min=0).sqrt()
        for i in range(size):
            for j in torch.randperm(size).tolist():
                if i == j or norms[i] == 0 or norms[j] == 0:  # a task without gradient has no direction
                    continue
                length = (rows[i] @ gramian @ rows[i]).clamp(min=0).sqrt()
                cosine = (rows[i] @ gramian[j] / (length * norms[j] + 1e-30)).clamp(-1, 1)
                target = self.targets[location[i], location[j]].clamp(max=HIGHEST)
                if cosine < target:
                    across, goal = (1 - cosine**2).sqrt(), (1 - target**2).sqrt()
                    rows[i, j] += length * (target * across - cosine * goal) / (norms[j] * goal + 1e-30)
                self.targets[location[i], location[j]] = (1 - self.beta) * target + self.beta * cosine
        return rows.sum(dim=0)
