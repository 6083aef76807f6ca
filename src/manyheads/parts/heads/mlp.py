"""Several hidden layers."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from manyheads.encoder.dropout import Dropout
from manyheads.parts.heads.base import Head
from manyheads.registry import Count, Share, register


@register("heads", "mlp", paper="D")
class Mlp(Head):
    """`layers` times x ← drop(relu(W·x + b)) with `units` each, then a linear layer.

    Relations: `hidden` is this with one layer; `linear` with none.
    """

    def __init__(
        self, features: int, outputs: int, *, layers: Count = 2, units: Count = 256, dropout: Share = 0.1
    ) -> None:
        super().__init__()
        widths = [features, *[units] * layers]
        self.dropout = Dropout(dropout)
        self.hidden = nn.ModuleList(nn.Linear(one, two) for one, two in pairwise(widths))
        self.out = nn.Linear(units, outputs)

    def forward(self, features: Tensor) -> Tensor:
        x = self.dropout(features)
        for layer in self.hidden:
            x = self.dropout(torch.relu(layer(x)))
        return self.out(x)
