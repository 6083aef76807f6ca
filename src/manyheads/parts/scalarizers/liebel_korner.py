"""Uncertainty weights whose regulariser is never negative: "Auxiliary Tasks in Multi-task Learning" (2018)."""

from __future__ import annotations

from torch import Tensor

from manyheads.parts.scalarizers.base import LearntWeights
from manyheads.registry import register


@register("scalarizers", "liebel-korner", paper="B")
class LiebelKorner(LearntWeights):
    """Liebel and Körner's Σ L_i/(2w_i²) + ln(1 + w_i²), w learnt from 1.

    Of all tasks, or of those that `weighted_tasks` names: the others keep weight 1.
    """

    start = 1.0

    def term(self, w: Tensor, loss: Tensor) -> Tensor:
        return loss / (2 * w**2) + (w**2).log1p()
