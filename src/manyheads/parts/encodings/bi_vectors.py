"""Each text has a vector of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from manyheads.parts.encodings.pairs import PairOfInputs
from manyheads.registry import register

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("encodings", "bi-vectors")
class BiVectors(PairOfInputs):
    """v of each text by itself: a query, its right answer, and any number of wrong ones.

    v: pooled vector, by default the mean of token states. A head reads each vector alone; with none it stays as it is.
    Relations: `bi-cosine` gives one number for a pair; here every text of a batch can be compared with every other.
    """

    gives = "vectors"
    pooling = "mean"

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = width

    @classmethod
    def why_incompatible(cls, task: Task) -> str | None:
        if not task.kind.searches:
            return f"'{task.encoding.name}' gives a vector per text, this task is {task.kind.called}; use 'bi-cosine'."
        return super().why_incompatible(task)

    def forward(self, pooled: Tensor) -> Tensor:
        return pooled
