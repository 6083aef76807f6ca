"""Losses scaled to the same size: the loss balance of "Towards Impartial Multi-task Learning" (2021)."""

from __future__ import annotations

import torch
from torch import Tensor

from manyheads.parts.scalarizers.base import LearntWeights
from manyheads.registry import register


@register("scalarizers", "imtl-l")
class ImpartialLosses(LearntWeights):
    """IMTL-L: Σ exp(s_i)·L_i − s_i, s learnt from 0; its gradient balance is the aggregator `imtl-g`.

    The formula of `uncertainty` with s = −w: the two differ in what they were derived from, not in what they do.
    """

    def term(self, w: Tensor, loss: Tensor) -> Tensor:
        return torch.exp(w) * loss - w
