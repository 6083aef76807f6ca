"""The last real token's state."""

from __future__ import annotations

from torch import Tensor

from manyheads.encoder import Encoder
from manyheads.encodings.base import Pooling
from manyheads.registry import register


@register("pooling", "last", paper="B")
class LastToken(Pooling):
    """The state of an input's last token, which is its closing [SEP]; there is no padding to skip."""

    keep = "last"

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()

    def forward(self, states: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        return states[starts]  # of each input only the last token was kept
