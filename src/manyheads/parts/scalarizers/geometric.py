"""The geometric mean of the losses: "MultiNet++" (2019)."""

from __future__ import annotations

import torch
from torch import Tensor

from manyheads.errors import UserError
from manyheads.parts.scalarizers.base import Scalarizer
from manyheads.registry import register

SMALLEST = 1e-8  # a loss of 0 has no logarithm


@register("scalarizers", "geometric-mean")
class GeometricMean(Scalarizer):
    """(Π L_i)^(1/T): every task counts by its relative improvement, whatever the scale of its loss."""

    affine = False

    def forward(self, losses: dict[str, Tensor]) -> Tensor:
        for task, loss in losses.items():
            if loss < 0:
                raise UserError(
                    f"combine.losses 'geometric-mean' needs losses that are not negative; that of task '{task}' is "
                    f"{float(loss):.3g}. Use another loss, or another combination such as 'uncertainty'.",
                    code="negative-loss",
                )
        return torch.stack(list(losses.values())).clamp(min=SMALLEST).log().mean().exp()
