"""Both sentences of a pair in one input, so that every layer can compare them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from torch import Tensor

from manyheads.parts.encodings.base import Encoding, Ids
from manyheads.registry import register
from manyheads.tokens.tokenizer import SpecialTokens


@register("encodings", "cross", paper="A, B, E")
class Cross(Encoding):
    """[CLS] s1 [SEP] s2 [SEP] as one input; the head sees the joint embedding.

    `segments`: tell the two sentences apart by segment id (paper B's future work). `special_tokens: each` frames both
    sentences before it joins them: [CLS] s1 [SEP] [SEP] [CLS] s2 [SEP], where the separator stands between two frames.
    An over-long pair is cut at the end of its longer sentence first; special tokens are never cut.
    Relations: `cross-nosep` leaves out the middle [SEP]; the `bi-` encodings read each sentence on its own, so that
    its vector can be kept and compared with many others.
    """

    texts = 2
    single_texts = slice(0)
    separator = True  # whether special tokens stand between the sentences

    def __init__(self, width: int, *, segments: bool = True, special_tokens: Literal["once", "each"] = "once") -> None:
        super().__init__()
        self.features = width
        self.segments = segments
        self.frames_each = special_tokens == "each"

    def inputs(self, texts: tuple[Ids, ...], special_tokens: SpecialTokens, max_length: int) -> list[tuple[Ids, Ids]]:
        return [special_tokens.pair(texts[0], texts[1], max_length, self.separator, self.segments, self.frames_each)]

    def untruncated_length(self, lengths: tuple[np.ndarray, ...], special_tokens: SpecialTokens) -> np.ndarray:
        return lengths[0] + lengths[1] + special_tokens.special_tokens_of_pair(self.separator, self.frames_each)

    def forward(self, pooled: Tensor) -> Tensor:
        return pooled
