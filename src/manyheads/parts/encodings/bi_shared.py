"""A layer on both sentences' vectors that several tasks share."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.parts.encodings.pairs import PairOfInputs, cosine
from manyheads.registry import Count, register


@register("encodings", "bi-shared", paper="C")
class BiShared(PairOfInputs):
    """leaky_relu(W·[u; v; |u − v|; cos(u, v)] + b) with W, b shared by all tasks of the same `group`.

    u, v: pooled vectors of the two sentences; `units`: length of the result, which the task's own head reads.
    Relations: `bi-siamese` and `bi-cosine-feature` give parts of the same vector to the head directly.
    """

    def __init__(self, width: int, *, group: str = "pairs", units: Count = 256) -> None:
        super().__init__()
        if not group.replace("-", "").replace("_", "").isalnum():
            raise ValueError(f"'group' is a name of letters, digits, '-' and '_', found '{group}'")
        self.group = group
        self.features = units
        # in a tuple, because the layer belongs to the group: the model keeps and saves it once
        self._layer = (nn.Linear(3 * width + 1, units),)

    @property
    def layer(self) -> nn.Linear:
        return self._layer[0]

    def share(self, layer: nn.Module) -> None:
        if not isinstance(layer, nn.Linear) or layer.weight.shape != self.layer.weight.shape:
            raise ValueError(
                f"the tasks of group '{self.group}' share one layer, so their 'units' and the widths of their pooling "
                "must agree"
            )
        self._layer = (layer,)

    def forward(self, pooled: Tensor) -> Tensor:
        u, v = pooled[0::2], pooled[1::2]
        return F.leaky_relu(self.layer(torch.cat([u, v, (u - v).abs(), cosine(u, v)], dim=-1)))
