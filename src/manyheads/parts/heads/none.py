"""No head: the encoding gives the prediction."""

from __future__ import annotations

from torch import Tensor

from manyheads.parts.heads.base import Head
from manyheads.registry import register


@register("heads", "none", paper="C, D, E")
class NoHead(Head):
    """x: for the cosine encodings, whose similarity is itself the prediction."""

    reads_similarity = True

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()

    def forward(self, features: Tensor) -> Tensor:
        return features
