"""A vector per word."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from manyheads.encoder import Encoder
from manyheads.parts.pooling.base import Pooling
from manyheads.registry import register
from manyheads.tokens.packing import Words


@register("pooling", "words")
class WordStates(Pooling):
    """h_f for each word: the state of its first token f.

    `pieces`: 'first' trains on the first piece of each word alone; with 'all' every other piece is one more example in
    training, of the same label, or of its inside where the label begins an entity. Predicted is the first piece always.
    Relations: the only pooling of `kind: tags`; the others give a vector per input.
    """

    positions_needed = "all"
    reads_words = True

    def __init__(self, encoder: Encoder, *, layer: int = -1, pieces: Literal["first", "all"] = "first") -> None:
        super().__init__(encoder, layer=layer)
        self.pieces = pieces  # see `TaskTokens.with_all_pieces`

    def forward(self, states: Tensor, starts: Tensor, lengths: Tensor, words: Words) -> Tensor:  # type: ignore[override]
        return states[starts[words.inputs] + words.first_tokens]
