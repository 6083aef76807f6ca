"""One sentence, one input."""

from __future__ import annotations

from torch import Tensor

from manyheads.parts.encodings.base import Encoding
from manyheads.registry import register
from manyheads.tokens.framing import SingleFrame


@register("encodings", "single", paper="all")
class Single(Encoding):
    """[CLS] sentence [SEP]: for tasks with one text column."""

    texts = 1
    frames = (SingleFrame(),)

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = width

    def forward(self, pooled: Tensor) -> Tensor:
        return pooled
