"""Cosine embedding loss: similar pairs together, others apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from manyheads.parts.losses.scores import ScoreLoss
from manyheads.registry import find, register

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("losses", "cosine-embedding", paper="C, D")
class CosineEmbedding(ScoreLoss):
    """1 − c for a similar pair, max(0, c − m) for any other: c is the cosine of the two sentences' vectors.

    A pair is similar where its label is at least `threshold`, by default the middle of the range (2.5 of 0 to 5, as in
    paper D; C prints none), or where it is of the second of two classes. m (`margin`): below it a dissimilar pair costs
    nothing.
    Relations: `mse` on the same encoding uses the label itself; papers C and D both found it better for similarity.
    """

    def __init__(self, task: Task, *, threshold: float | None = None, margin: float = 0.0) -> None:
        super().__init__(task)
        self.margin = margin
        self.threshold = 0.5  # between classes 0 and 1
        if not task.kind.has_classes:
            low, high = task.bounds or (0.0, 1.0)
            wanted = (low + high) / 2 if threshold is None else threshold
            if not low < wanted < high:
                raise ValueError(f"'threshold' is between {low:g} and {high:g}, as labels are, found {wanted:g}")
            self.threshold = (wanted - task.offset) / task.unit
        elif threshold is not None:
            raise ValueError("'threshold' is for numbers; of two classes the second is the similar one")

    @classmethod
    def why_incompatible(cls, task: Task) -> str | None:
        if find("encodings", task.encoding.name).factory.gives != "cosine":
            return f"'{task.loss.name}' needs the cosine of a pair; use it with encoding 'bi-cosine'."
        return super().why_incompatible(task)

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        c = self.score(outputs)
        similar = labels.to(c.dtype) >= self.threshold - 1e-9  # a label at the threshold stays there when scaled
        return torch.where(similar, 1 - c, (c - self.margin).clamp(min=0))
