"""The first token's state as it is."""

from __future__ import annotations

from torch import Tensor

from manyheads.parts.pooling.base import Pooling
from manyheads.registry import register


@register("pooling", "first", paper="B")
class FirstToken(Pooling):
    """h_[CLS]: the state of the first token, with no layer on top."""

    positions_needed = "first"

    def forward(self, states: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        return states[starts]
