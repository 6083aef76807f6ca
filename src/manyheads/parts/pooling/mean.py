"""The mean of the token states."""

from __future__ import annotations

from torch import Tensor

from manyheads.parts.pooling.base import Pooling, token_rows
from manyheads.registry import register


@register("pooling", "mean", paper="B, D")
class Mean(Pooling):
    """Σ_t h_t / n over an input's tokens, special ones included; there is no padding to leave out."""

    positions_needed = "all"

    def forward(self, states: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        rows, inputs = token_rows(starts, lengths)
        summed = states.new_zeros(len(starts), states.shape[1]).index_add(0, inputs, states[rows])
        return summed / lengths[:, None]
