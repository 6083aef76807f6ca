"""Everything that a linear map can use of two sentences' vectors."""

from __future__ import annotations

import torch
from torch import Tensor

from manyheads.parts.encodings.pairs import PairOfInputs, cosine
from manyheads.registry import register


@register("encodings", "bi-features")
class BiFeatures(PairOfInputs):
    """[u; v; |u − v|; u∘v; cos(u, v)]: both vectors, their distance, their product and their cosine.

    u, v: pooled vectors of the two sentences. A linear head on them is the frozen baseline of every pair task.
    Relations: `bi-siamese` and `bi-cosine-feature` are parts of it.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = 4 * width + 1

    def forward(self, pooled: Tensor) -> Tensor:
        u, v = pooled[0::2], pooled[1::2]
        return torch.cat([u, v, (u - v).abs(), u * v, cosine(u, v)], dim=-1)
