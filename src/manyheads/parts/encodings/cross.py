"""Both sentences of a pair in one input, so that every layer can compare them."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from manyheads.parts.encodings.base import Encoding, Ids
from manyheads.registry import register
from manyheads.tokens.tokenizer import SpecialTokens


@register("encodings", "cross", paper="A, B, E")
class Cross(Encoding):
    """[CLS] s1 [SEP] s2 [SEP] as one input; the head sees the joint embedding.

    `segments`: tell the two sentences apart by segment id (paper B's future work).
    An over-long pair is cut at the end of its longer sentence first.
    Relations: `cross-nosep` leaves out the middle [SEP]; the `bi-` encodings read each sentence on its own, so that
    its vector can be kept and compared with many others.
    """

    texts = 2
    separator = True  # whether special tokens stand between the sentences

    def __init__(self, width: int, *, segments: bool = True) -> None:
        super().__init__()
        self.features = width
        self.segments = segments

    def inputs(self, texts: tuple[Ids, ...], special_tokens: SpecialTokens, max_length: int) -> list[tuple[Ids, Ids]]:
        return [special_tokens.pair(texts[0], texts[1], max_length, self.separator, self.segments)]

    def untruncated_length(self, lengths: tuple[np.ndarray, ...], special_tokens: SpecialTokens) -> np.ndarray:
        around = special_tokens.around_pair if self.separator else special_tokens.around_single
        return lengths[0] + lengths[1] + around

    def forward(self, pooled: Tensor) -> Tensor:
        return pooled
