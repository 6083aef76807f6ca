"""A pooler inside each head."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from manyheads.encoder import Encoder
from manyheads.parts.pooling.base import Pooling
from manyheads.parts.pooling.first_token import FirstToken
from manyheads.parts.pooling.last_token import LastToken
from manyheads.parts.pooling.mean import Mean
from manyheads.registry import register

READERS: dict[str, type[Pooling]] = {"first": FirstToken, "last": LastToken, "mean": Mean}


@register("pooling", "head-pooler", paper="B")
class HeadPooler(Pooling):
    """tanh(W·r + b) with W, b of the task's own (paper B: essential); r: the first or last token, or the mean of all.

    `reads`: r is the state of the `first` token, of the `last` one, or the `mean` of all, as the poolings of these
    names give it. `start`: W is drawn from N(0, 0.02²) and b is 0 (`random`), or both are a copy of the pooler that
    came with the encoder (`encoder`); the rest of the head starts the same either way.
    Relations: `shared-pooler` is the encoder's pooler itself, one for all tasks.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        reads: Literal["first", "last", "mean"] = "first",
        start: Literal["random", "encoder"] = "random",
        layer: int = -1,
    ) -> None:
        super().__init__(encoder, layer=layer)
        self.reader = READERS[reads](encoder, layer=layer)
        self.positions_needed = self.reader.positions_needed
        self.dense = nn.Linear(encoder.width, encoder.width)
        nn.init.normal_(self.dense.weight, std=0.02)
        nn.init.zeros_(self.dense.bias)
        if start == "encoder":
            self._copy_pooler(encoder)

    def _copy_pooler(self, encoder: Encoder) -> None:
        if not isinstance(encoder.pooler, nn.Linear) or not encoder.has_pooler_weights:
            raise ValueError(
                "'start: encoder' copies the pooler that came with the encoder, and this encoder came without one; "
                "use 'start: random'"
            )
        with torch.no_grad():
            self.dense.weight.copy_(encoder.pooler.weight)
            self.dense.bias.copy_(encoder.pooler.bias)

    def forward(self, states: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        return torch.tanh(self.dense(self.reader(states, starts, lengths)))
