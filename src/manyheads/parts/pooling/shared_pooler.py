"""The encoder's own pooler, shared by all tasks that use it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from manyheads.encoder import Encoder
from manyheads.parts.pooling.base import Pooling
from manyheads.registry import register


@register("pooling", "shared-pooler", paper="A, B")
class SharedPooler(Pooling):
    """tanh(W·h_[CLS] + b) with the W, b that came with the encoder: one pooler for all tasks that name it."""

    positions_needed = "first"

    def __init__(self, encoder: Encoder, *, layer: int = -1) -> None:
        super().__init__(encoder, layer=layer)
        if encoder.pooler is None:
            raise ValueError("'shared-pooler' needs an encoder that has a pooler; use 'head-pooler' with this one")
        encoder.pooler.requires_grad_(True)
        self._pooler = (encoder.pooler,)  # in a tuple, because its weights are the encoder's to save

    @property
    def pooler(self) -> nn.Module:
        return self._pooler[0]

    def forward(self, states: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        return torch.tanh(self.pooler(states[starts]))
