"""The cosine of the two sentences' vectors is the prediction."""

from __future__ import annotations

from torch import Tensor

from manyheads.parts.encodings.pairs import PairOfInputs, cosine
from manyheads.registry import register


@register("encodings", "bi-cosine", paper="C, E")
class BiCosine(PairOfInputs):
    """(cos(u, v) + 1)/2: the similarity from 0 to 1 that is itself the prediction, with no head.

    u, v: pooled vectors of the two sentences, by default means of token states; cos = u·v / max(‖u‖‖v‖, ε).
    A regression's prediction is lo + (hi − lo)·(cos + 1)/2 over its range, a two-class task's probability of the
    second class is (cos + 1)/2: pairs that are not alike must then have opposite vectors, which takes long to learn.
    Relations: `bi-scaled-cosine` learns how steeply similarity falls; `bi-cosine-feature` gives the cosine to a head.
    """

    gives = "cosine"
    symmetric = True
    pooling = "mean"

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = 1

    def forward(self, pooled: Tensor) -> Tensor:
        return (cosine(pooled[0::2], pooled[1::2]) + 1) / 2
