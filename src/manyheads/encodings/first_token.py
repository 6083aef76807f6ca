"""The first token's state as it is."""

from __future__ import annotations

from torch import Tensor

from manyheads.encoder import Encoder
from manyheads.encodings.base import Pooling
from manyheads.registry import register


@register("pooling", "first", paper="B")
class FirstToken(Pooling):
    """h_[CLS]: the last layer's state of the first token, with no layer on top."""

    keep = "first"

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()

    def forward(self, states: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        return states[starts]
