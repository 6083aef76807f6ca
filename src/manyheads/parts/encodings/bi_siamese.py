"""Both sentences' vectors and their distance."""

from __future__ import annotations

import torch
from torch import Tensor

from manyheads.parts.encodings.pairs import PairOfInputs
from manyheads.registry import register


@register("encodings", "bi-siamese", paper="C")
class BiSiamese(PairOfInputs):
    """[u; v; |u − v|]: as bi-concat, with the elementwise distance as a third part.

    u, v: pooled vectors of the two sentences.
    Relations: `bi-shared` adds the cosine and a layer that several tasks share.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = 3 * width

    def forward(self, pooled: Tensor) -> Tensor:
        u, v = pooled[0::2], pooled[1::2]
        return torch.cat([u, v, (u - v).abs()], dim=-1)
