"""The plain sum of the tasks' losses."""

from __future__ import annotations

from torch import Tensor, nn

from manyheads.registry import register


@register("scalarizers", "sum", paper="A, C, D")
class Sum(nn.Module):
    """Σ L_i over the tasks of the step."""

    def forward(self, losses: Tensor) -> Tensor:
        """Losses [tasks present] → one number."""
        return losses.sum()
