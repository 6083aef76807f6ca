"""Both sentences' vectors and their cosine."""

from __future__ import annotations

import torch
from torch import Tensor

from manyheads.parts.encodings.pairs import PairOfInputs, cosine
from manyheads.registry import register


@register("encodings", "bi-cosine-feature", paper="B")
class BiCosineFeature(PairOfInputs):
    """[u; v; cos(u, v)]: as bi-concat, with the cosine of the two as one more feature.

    u, v: pooled vectors of the two sentences.
    Relations: `bi-cosine` predicts by the cosine alone, with no head.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = 2 * width + 1

    def forward(self, pooled: Tensor) -> Tensor:
        u, v = pooled[0::2], pooled[1::2]
        return torch.cat([u, v, cosine(u, v)], dim=-1)
