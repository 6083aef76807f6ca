"""Both sentences of a pair in one input, and each in one of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from manyheads.parts.encodings.base import Encoding
from manyheads.parts.encodings.pairs import cosine
from manyheads.registry import register
from manyheads.tokens.framing import PairFrame, SingleFrame


@register("encodings", "cross-bi")
class CrossBi(Encoding):
    """[j; u; v; |u − v|; u∘v; cos(u, v)]: the joint input's vector beside what `bi-features` gives.

    j: pooled vector of [CLS] s1 [SEP] s2 [SEP]; u, v: those of the two sentences on their own. It starts where the
    encoder's sentence vectors already are, as `bi-features`, and every layer can compare the sentences, as in `cross`;
    it costs about twice as much as either.
    """

    texts = 2
    single_texts = slice(1, None)

    def __init__(self, width: int, *, segments: bool = True) -> None:
        super().__init__()
        self.features = 5 * width + 1
        self.frames = (PairFrame(segments=segments), SingleFrame(0), SingleFrame(1))

    def forward(self, pooled: Tensor) -> Tensor:
        joint, u, v = pooled[0::3], pooled[1::3], pooled[2::3]
        return torch.cat([joint, u, v, (u - v).abs(), u * v, cosine(u, v)], dim=-1)
