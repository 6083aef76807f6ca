"""The last states of an LSTM that reads the token states."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence

from manyheads.encoder import Encoder
from manyheads.parts.pooling.base import Pooling, token_rows
from manyheads.registry import Count, register


@register("pooling", "lstm", paper="D")
class LstmPooling(Pooling):
    """[h→_n; h←_1]: the last states of an LSTM that reads an input's token states forwards, and one backwards.

    `units`: length of each; `bidirectional: false` reads forwards only. Inputs are packed: no padding is read.
    Relations: head `lstm` is this pooling with head `linear`.
    """

    positions_needed = "all"

    def __init__(self, encoder: Encoder, *, units: Count = 128, bidirectional: bool = True, layer: int = -1) -> None:
        super().__init__(encoder, layer=layer)
        self.lstm = nn.LSTM(encoder.width, units, bidirectional=bidirectional)
        self.width = units * (2 if bidirectional else 1)

    def forward(self, states: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        rows, _ = token_rows(starts, lengths)
        inputs = states[rows].split(lengths.tolist())
        _, (last, _) = self.lstm(pack_sequence(inputs, enforce_sorted=False))  # [directions, inputs, units]
        return torch.cat(list(last), dim=-1)
