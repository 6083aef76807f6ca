"""CoSENT: every pair of examples in the right order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn import functional as F

from manyheads.parts.losses.scores import ScoreLoss
from manyheads.registry import Positive, register

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("losses", "cosent")
class CoSent(ScoreLoss):
    """log(1 + Σ exp(λ·(s_j − s_i))) over all i, j of a batch with y_i > y_j: who is more similar gets the higher score.

    s: 2p − 1 where the encoding gives a similarity p (the cosine of `bi-cosine`), else the head's output; y: labels;
    λ (`scale`): 20 for similarities, which lie between −1 and 1, else 1. One value for the whole batch, so a batch has
    at least two examples, and accumulating it over batches needs `combine.average: batch`. (Su, 2022.)
    Relations: `pearson-loss` asks for a straight line, this only for the order; `mse` for the values themselves. With a
    head, predictions have the right order but no right level: look at correlations, not at errors.
    """

    whole_batch = True

    def __init__(self, task: Task, *, scale: Positive | None = None) -> None:
        super().__init__(task)
        self.scale = scale if scale is not None else 20.0 if self.similarity else 1.0

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        s = self.score(outputs)
        above = (labels[:, None] > labels[None, :]).to(s.device)  # [i, j]
        terms = (self.scale * (s[None, :] - s[:, None]))[above]
        # log(1 + Σ exp t) = logsumexp over the terms and one 0
        return F.pad(terms, (1, 0)).logsumexp(dim=0).expand(len(s))
