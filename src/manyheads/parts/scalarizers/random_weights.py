"""Weights drawn at random: "Reasonable Effectiveness of Random Weighting" (2021), the baseline of all weightings."""

from __future__ import annotations

import torch
from torch import Tensor

from manyheads.parts.scalarizers.base import Scalarizer
from manyheads.registry import register


@register("scalarizers", "random-weights")
class RandomWeights(Scalarizer):
    """Σ w_i·L_i with w = softmax(z), z drawn anew from N(0, 1) for every step."""

    def forward(self, losses: dict[str, Tensor]) -> Tensor:
        weights = torch.softmax(torch.randn(len(losses), dtype=torch.float64), dim=0)
        return (weights * torch.stack(list(losses.values()))).sum()
