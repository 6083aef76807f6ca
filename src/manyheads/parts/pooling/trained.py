"""The pooling that the encoder was trained with."""

from __future__ import annotations

from torch import Tensor

from manyheads.config.part import PartConfig
from manyheads.encoder import Encoder
from manyheads.parts.pooling.base import Pooling
from manyheads.registry import register

POOLINGS = {
    "mean": PartConfig(name="mean"),
    "first": PartConfig(name="first"),
    "last": PartConfig(name="last"),
    "pooler": PartConfig(name="head-pooler", options={"start": "encoder"}),
}


@register("pooling", "trained")
class Trained(Pooling):
    """As the encoder was trained: `mean`, `first` or `last` as its 1_Pooling/config.json says, else its own pooler.

    Without such a file, an encoder whose weights have a pooler gets `head-pooler` with `start: encoder`, one without
    `mean`. A run writes out which of them it is.
    """

    def __init__(self, encoder: Encoder, *, layer: int = -1) -> None:
        super().__init__(encoder, layer=layer)
        self.pooling: Pooling = pooling_of(encoder, layer).build("pooling", encoder)
        self.positions_needed = self.pooling.positions_needed

    def forward(self, states: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        pooled: Tensor = self.pooling(states, starts, lengths)
        return pooled


def pooling_of(encoder: Encoder, layer: int = -1) -> PartConfig:
    """Which pooling an encoder was trained with, of the states of a layer."""
    pooling = POOLINGS[encoder.trained_pooling]
    if layer == -1:
        return pooling
    return PartConfig(name=pooling.name, options={**pooling.options, "layer": layer})
