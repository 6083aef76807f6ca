"""Tasks that improve slowly get more weight: "End-to-End Multi-Task Learning with Attention" (2019)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from manyheads.parts.scalarizers.base import Scalarizer
from manyheads.registry import Count, Positive, register


@register("scalarizers", "dynamic-weights")
class DynamicWeights(Scalarizer):
    """Dynamic weight averaging: Σ λ_i·L_i, λ_i = T·softmax(r_i/τ), r_i the ratio of the task's last two mean losses.

    The means are over epochs, or over `every` so many steps; until a task has two of them, its ratio is 1.
    """

    sums: Tensor
    counts: Tensor
    newer: Tensor
    older: Tensor
    steps: Tensor

    def __init__(self, tasks: Sequence[str], *, temperature: Positive = 2.0, every: Count | None = None) -> None:
        super().__init__(tasks)
        self.temperature, self.every = temperature, every
        for name in ("sums", "counts", "newer", "older"):  # [tasks]; 0 where nothing is known yet
            self.register_buffer(name, torch.zeros(len(tasks), dtype=torch.float64))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, losses: dict[str, Tensor]) -> Tensor:
        known = (self.older > 0) & (self.newer > 0)
        ratios = torch.where(known, self.newer / self.older.clamp(min=1e-12), 1.0)
        present = ratios[[self.tasks.index(task) for task in losses]]
        weights = len(losses) * torch.softmax(present / self.temperature, dim=0)
        return (weights * torch.stack(list(losses.values()))).sum()

    def observe(self, losses: dict[str, float]) -> None:
        for task, loss in losses.items():
            self.sums[self.tasks.index(task)] += loss
            self.counts[self.tasks.index(task)] += 1
        self.steps += 1
        if self.every and self.steps % self.every == 0:
            self._take_means()

    def end_epoch(self) -> None:
        if not self.every:
            self._take_means()

    def _take_means(self) -> None:
        seen = self.counts > 0
        self.older.copy_(torch.where(seen, self.newer, self.older))
        self.newer.copy_(torch.where(seen, self.sums / self.counts.clamp(min=1), self.newer))
        self.sums.zero_()
        self.counts.zero_()
