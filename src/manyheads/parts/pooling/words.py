"""A vector per word."""

from __future__ import annotations

from torch import Tensor

from manyheads.parts.pooling.base import Pooling
from manyheads.registry import register
from manyheads.tokens.packing import Words


@register("pooling", "words")
class WordStates(Pooling):
    """h_f for each word: the state of its first token f.

    Relations: the only pooling of `kind: tags`; the others give a vector per input.
    """

    positions_needed = "all"
    reads_words = True

    def forward(self, states: Tensor, starts: Tensor, lengths: Tensor, words: Words) -> Tensor:  # type: ignore[override]
        return states[starts[words.inputs] + words.first_tokens]
