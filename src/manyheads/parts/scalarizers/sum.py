"""The tasks' losses as they are."""

from __future__ import annotations

import torch
from torch import Tensor

from manyheads.parts.scalarizers.base import Scalarizer
from manyheads.registry import register


@register("scalarizers", "sum", paper="A, C, D")
class Sum(Scalarizer):
    """Σ L_i over the tasks of the step."""

    def forward(self, losses: dict[str, Tensor]) -> Tensor:
        return torch.stack(list(losses.values())).sum()

    def factors(self, losses: dict[str, float]) -> dict[str, float]:
        return dict.fromkeys(losses, 1.0)  # without the detour through autograd, which a small step would feel


@register("scalarizers", "mean", paper="D")
class Mean(Scalarizer):
    """(1/T)·Σ L_i over the T tasks of the step."""

    def forward(self, losses: dict[str, Tensor]) -> Tensor:
        return torch.stack(list(losses.values())).mean()
