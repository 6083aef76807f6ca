"""A pooler inside each head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from manyheads.encoder import Encoder
from manyheads.parts.pooling.base import Pooling
from manyheads.registry import register


@register("pooling", "head-pooler", paper="B")
class HeadPooler(Pooling):
    """tanh(W·h_[CLS] + b) with W, b of the task's own: tasks need not agree on one pooler (paper B: essential)."""

    positions_needed = "first"

    def __init__(self, encoder: Encoder, *, layer: int = -1) -> None:
        super().__init__(encoder, layer=layer)
        self.dense = nn.Linear(encoder.width, encoder.width)
        nn.init.normal_(self.dense.weight, std=0.02)
        nn.init.zeros_(self.dense.bias)

    def forward(self, states: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        return torch.tanh(self.dense(states[starts]))
