"""What a pooling must offer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from manyheads.encoder import Encoder
from manyheads.tokens.packing import PositionsNeeded


class Pooling(nn.Module):
    """How the token states of one input become one vector. Built with the encoder whose states it reads.

    `layer`: whose states it reads, counted from 1; 0 is the embeddings, negative counts from the top; by default the
    last. If no task reads the upper layers they are not run.
    """

    positions_needed: PositionsNeeded  # which states it reads; the encoder need not compute the others
    width: int  # of the vector
    reads_words = False  # whether it gives a vector per word: `forward` then has a fourth argument, the inputs' `Words`

    def __init__(self, encoder: Encoder, *, layer: int = -1) -> None:
        super().__init__()
        depth = encoder.depth
        if not -depth - 1 <= layer <= depth:
            raise ValueError(
                f"this encoder has {depth} layers: 'layer' is from 0 to {depth}, or negative, found {layer}"
            )
        self.layer = layer if layer >= 0 else depth + 1 + layer
        self.width = encoder.width

    def forward(self, states: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        """States [rows, width]; first row and number of rows of each input → [inputs, width]."""
        raise NotImplementedError


def token_rows(starts: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """All rows of some inputs, one input after the other, and for each row which input it is of."""
    inputs = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
    before = torch.cumsum(lengths, dim=0) - lengths  # rows of the inputs before each
    return starts[inputs] + torch.arange(len(inputs), device=lengths.device) - before[inputs], inputs
