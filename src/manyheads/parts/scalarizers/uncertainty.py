"""Weights learnt as the tasks' uncertainty: "Multi-Task Learning Using Uncertainty to Weigh Losses" (2018)."""

from __future__ import annotations

import torch
from torch import Tensor

from manyheads.parts.scalarizers.base import LearntWeights
from manyheads.registry import register


@register("scalarizers", "uncertainty", paper="C")
class Uncertainty(LearntWeights):
    """Kendall's Σ exp(−w_i)·L_i + w_i, w learnt from 0.

    w is the logarithm of the task's noise: exp(−w_i) goes towards 1/L_i, so every weighted loss goes towards 1.
    """

    def term(self, w: Tensor, loss: Tensor) -> Tensor:
        return torch.exp(-w) * loss + w
