"""One sentence, one input."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from manyheads.parts.encodings.base import Encoding, Ids
from manyheads.registry import register
from manyheads.tokens.tokenizer import SpecialTokens


@register("encodings", "single", paper="all")
class Single(Encoding):
    """[CLS] sentence [SEP]: for tasks with one text column."""

    texts = 1

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = width

    def inputs(self, texts: tuple[Ids, ...], special_tokens: SpecialTokens, max_length: int) -> list[tuple[Ids, Ids]]:
        return [special_tokens.single(texts[0], max_length)]

    def untruncated_length(self, lengths: tuple[np.ndarray, ...], special_tokens: SpecialTokens) -> np.ndarray:
        return lengths[0] + special_tokens.around_single

    def forward(self, pooled: Tensor) -> Tensor:
        return pooled
