"""One linear layer."""

from __future__ import annotations

from torch import Tensor, nn

from manyheads.encoder.dropout import Dropout
from manyheads.parts.heads.base import Head
from manyheads.registry import Share, register


@register("heads", "linear", paper="all")
class Linear(Head):
    """W·drop(x) + b."""

    def __init__(self, features: int, outputs: int, *, dropout: Share = 0.1) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.dense = nn.Linear(features, outputs)
        nn.init.normal_(self.dense.weight, std=0.02)
        nn.init.zeros_(self.dense.bias)

    @property
    def linear_map(self) -> nn.Linear:  # type: ignore[override]  # a property, lest the layer has two names
        return self.dense

    def forward(self, features: Tensor) -> Tensor:
        return self.dense(self.dropout(features))
