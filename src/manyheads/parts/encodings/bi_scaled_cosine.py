"""The cosine of the two sentences' vectors on a learned scale is the prediction."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from manyheads.parts.encodings.pairs import PairOfInputs, cosine
from manyheads.registry import Positive, register


@register("encodings", "bi-scaled-cosine", paper="D")
class BiScaledCosine(PairOfInputs):
    """clip(a·(cos(u, v) − 1) + 1, 0, 1): a similarity that is 1 for equal vectors and falls as steeply as a learns.

    u, v: means of the token states of the two sentences; a: one per task, starts at `start` and learns, unless
    `learnable` is false. The similarity is the prediction, with no head: over the range of a regression, or as the
    probability of the second of two classes. Pairs whose similarity is clipped teach nothing; a start of 1 clips only
    pairs of negative cosine.
    Relations: `bi-cosine` is a = 1/2, fixed, which never clips.
    """

    gives = "similarity"
    symmetric = True
    pooling = "mean"

    def __init__(self, width: int, *, start: Positive = 1.0, learnable: bool = True) -> None:
        super().__init__()
        self.features = 1
        self.a: Tensor
        if learnable:
            self.a = nn.Parameter(torch.tensor(start))
        else:
            self.register_buffer("a", torch.tensor(start))

    def forward(self, pooled: Tensor) -> Tensor:
        return (self.a * (cosine(pooled[0::2], pooled[1::2]) - 1) + 1).clamp(0, 1)
