"""Margin-MSE: answers as far apart as a teacher has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from manyheads.parts.losses.vectors import Places, VectorLoss, Widths
from manyheads.registry import Count, Positive, register

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("losses", "margin-mse")
class MarginMSE(VectorLoss):
    """((s(q, a) − s(q, n)) − (t_a − t_n))², mean over the wrong answers n of a row.

    s: λ times the cosine, λ is `scale`; t: a teacher's scores of the row's answers, from the label column: a list with
    the right answer's first, or one number, the margin t_a − t_n of a single wrong answer. (Hofstätter et al., 2020.)
    Relations: `multiple-negatives` needs no teacher, and compares with the answers of the whole batch.
    """

    reads_scores = True

    def __init__(self, task: Task, *, scale: Positive = 20.0, widths: Widths | None = None, width: Count = 256) -> None:
        super().__init__(task, width, widths)
        self.scale = scale

    @classmethod
    def why_incompatible(cls, task: Task) -> str | None:
        reason = super().why_incompatible(task)
        if reason is None and not task.labels.scores:
            return f"'{task.loss.name}' needs a teacher's scores; name their column as the label."
        return reason

    def of_unit_vectors(self, vectors: Tensor, labels: Tensor, places: Places) -> Tensor:
        """`labels`: a teacher's score of each answer; of queries anything."""
        answers = vectors[places.answers]
        scores = self.scale * (vectors[places.queries][places.examples] * answers).sum(dim=1)
        margins = scores - labels[places.answers].to(scores.dtype)
        errors = (margins[places.right][places.examples] - margins) ** 2  # 0 for right answers themselves
        counts = torch.bincount(places.examples) - 1
        sums = errors.new_zeros(len(counts)).index_add(0, places.examples, errors)
        return sums / counts
