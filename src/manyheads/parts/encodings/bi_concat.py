"""Both sentences' vectors side by side."""

from __future__ import annotations

import torch
from torch import Tensor

from manyheads.parts.encodings.pairs import PairOfInputs
from manyheads.registry import register


@register("encodings", "bi-concat", paper="A, B, E")
class BiConcat(PairOfInputs):
    """[u; v]: the sentences are encoded apart, and the head sees both vectors.

    u, v: pooled vectors of the two sentences.
    Relations: `bi-siamese` adds |u − v|, `bi-cosine-feature` their cosine; `cross` lets the sentences see each other.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = 2 * width

    def forward(self, pooled: Tensor) -> Tensor:
        u, v = pooled[0::2], pooled[1::2]
        return torch.cat([u, v], dim=-1)
