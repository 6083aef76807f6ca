"""What an aggregator must offer: the Gramian of task gradients → weights."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


class Aggregator(nn.Module):
    """The Gramian of the task gradients, G_ij = g_i·g_j → a weight for each: the shared gradient is Σ w_i·g_i.

    Built with the names of the run's tasks. Buffers are its memory. It draws at random from torch's generator.
    """

    def __init__(self, tasks: Sequence[str]) -> None:
        super().__init__()
        self.tasks = list(tasks)

    def forward(self, gramian: Tensor, present: Sequence[str]) -> Tensor:
        """[T, T] in float64 for the T tasks present, in that order → [T]."""
        raise NotImplementedError
