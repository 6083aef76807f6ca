"""The last real token's state."""

from __future__ import annotations

from torch import Tensor

from manyheads.parts.pooling.base import Pooling
from manyheads.registry import register


@register("pooling", "last", paper="B")
class LastToken(Pooling):
    """The state of an input's last token, which is its closing [SEP]; there is no padding to skip."""

    positions_needed = "last"

    def forward(self, states: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        return states[starts + lengths - 1]
