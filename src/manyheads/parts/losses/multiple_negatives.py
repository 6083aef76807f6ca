"""Multiple negatives ranking: the right answer among all answers of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from manyheads.parts.losses.vectors import Places, VectorLoss, Widths
from manyheads.registry import Count, Positive, register

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("losses", "multiple-negatives")
class MultipleNegatives(VectorLoss):
    """−log exp(λ·cos(q_i, a_i)) / Σ_j exp(λ·cos(q_i, a_j)) over all answers j of the batch, right and wrong ones.

    λ (`scale`) is 1/temperature. Left out of the sum are answers that may be right as well: those with the text of a_i,
    those that are right for an equal query, and the query's own text. `symmetric`: the mean of this and of the same
    with queries and answers exchanged, the query of a_i among all queries. A larger batch has more wrong answers;
    one that does not fit into an encoder pass is encoded in several, with the gradient of the whole (see
    docs/retrieval.md). `mined`: from the second epoch on each row has so many wrong answers more, those that the
    encoder found nearest after the epoch before, with a cosine of at most `mined_below` times the right answer's. A
    batch has at least two examples, and accumulating needs `combine.average: batch`.
    Relations: `margin-mse` learns how much better an answer is, from a teacher; `cosent` learns from graded pairs.
    """

    whole_batch = True

    def __init__(
        self,
        task: Task,
        *,
        scale: Positive = 20.0,
        symmetric: bool = False,
        widths: Widths | None = None,
        width: Count = 256,
        mined: Annotated[int, Field(ge=0)] = 0,
        mined_below: Positive = 0.95,
    ) -> None:
        super().__init__(task, width, widths)
        self.scale, self.symmetric = scale, symmetric
        self.mined, self.mined_below = mined, mined_below

    def of_unit_vectors(self, vectors: Tensor, labels: Tensor, places: Places) -> Tensor:
        """`labels`: a number of each text; equal texts have equal numbers."""
        queries, answers = vectors[places.queries], vectors[places.answers]
        query_texts, answer_texts = labels[places.queries], labels[places.answers]
        scores = self.scale * queries @ answers.T
        right = _right_answers(query_texts, answer_texts, places)
        own = torch.arange(len(answer_texts), device=vectors.device)[None] == places.right[:, None]
        left_out = (right | (answer_texts[None] == query_texts[:, None])) & ~own
        losses = F.cross_entropy(scores.masked_fill(left_out, -torch.inf), places.right, reduction="none")
        if not self.symmetric:
            return losses
        backward = scores[:, places.right].T  # [answers, queries]
        left_out = left_out[:, places.right].T
        targets = torch.arange(len(queries), device=vectors.device)
        losses_back = F.cross_entropy(backward.masked_fill(left_out, -torch.inf), targets, reduction="none")
        return (losses + losses_back) / 2


def _right_answers(query_texts: Tensor, answer_texts: Tensor, places: Places) -> Tensor:
    """[queries, answers] whether an answer's text is right for any query of the batch with the same text."""
    same_query = query_texts[:, None] == query_texts[None]
    same_answer = answer_texts[places.right][:, None] == answer_texts[None]
    return (same_query.float() @ same_answer.float()) > 0
