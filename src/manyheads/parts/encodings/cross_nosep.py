"""Both sentences in one input, with nothing between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manyheads.parts.encodings.base import Ids
from manyheads.parts.encodings.cross import Cross
from manyheads.registry import register
from manyheads.tokens.tokenizer import SpecialTokens


@register("encodings", "cross-nosep", paper="A")
class CrossNoSeparator(Cross):
    """[CLS] s1 s2 [SEP]: as cross with no separator between the sentences."""

    def inputs(self, texts: tuple[Ids, ...], special_tokens: SpecialTokens, max_length: int) -> list[tuple[Ids, Ids]]:
        return super().inputs(texts, _without_middle(special_tokens), max_length)

    def untruncated_length(self, lengths: tuple[np.ndarray, ...], special_tokens: SpecialTokens) -> np.ndarray:
        return super().untruncated_length(lengths, _without_middle(special_tokens))


def _without_middle(special_tokens: SpecialTokens) -> SpecialTokens:
    return replace(special_tokens, middle=special_tokens.middle[:0])
