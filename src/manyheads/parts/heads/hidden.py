"""One hidden layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from manyheads.encoder.dropout import Dropout
from manyheads.parts.heads.base import Head
from manyheads.registry import Count, Share, register


@register("heads", "hidden", paper="A")
class Hidden(Head):
    """W₂·drop(relu(W₁·drop(x) + b₁)) + b₂ with `units` hidden units (paper A tries 10 to 120, best 120).

    `dropout` is the rate of the inner drop, on x; `hidden_dropout` that of the outer one, on the hidden units, by
    default the same. Paper A has dropout after the encoder only, which is `hidden_dropout: 0`.
    """

    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        units: Count = 120,
        dropout: Share = 0.1,
        hidden_dropout: Share | None = None,
    ) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.hidden_dropout = Dropout(dropout if hidden_dropout is None else hidden_dropout)
        self.hidden = nn.Linear(features, units)
        self.out = nn.Linear(units, outputs)

    def forward(self, features: Tensor) -> Tensor:
        return self.out(self.hidden_dropout(torch.relu(self.hidden(self.dropout(features)))))
