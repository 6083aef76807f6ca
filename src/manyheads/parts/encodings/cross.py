"""Both sentences of a pair in one input, so that every layer can compare them."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from manyheads.parts.encodings.base import Encoding
from manyheads.registry import register
from manyheads.tokens.framing import PairFrame


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
    joins_texts = True
    single_texts = slice(0)
    separator = True  # whether special tokens stand between the sentences

    def __init__(self, width: int, *, segments: bool = True, special_tokens: Literal["once", "each"] = "once") -> None:
        super().__init__()
        self.features = width
        self.frames = (PairFrame(self.separator, segments, each=special_tokens == "each"),)

    def forward(self, pooled: Tensor) -> Tensor:
        return pooled
