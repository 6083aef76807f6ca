"""Cross-entropy over the candidates of a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from manyheads.data.labels import LabelType
from manyheads.parts.losses.base import Loss
from manyheads.registry import Share, register

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("losses", "choice-cross-entropy")
class ChoiceCrossEntropy(Loss):
    """−(1 − ε)·log p_y − ε/K·Σ_k log p_k of each row, with p = softmax(x) over its own K candidates.

    x: a score of each candidate; y: the number of the right one; ε: `label_smoothing`. Rows weigh alike however many
    candidates they have. A frozen probe solves the candidates one by one, as right or wrong.
    Relations: `cross-entropy` over the same classes for every text.
    """

    label_types: tuple[LabelType, ...] = ("candidate",)
    reads_sentences = True
    average = "example"

    def __init__(self, task: Task, *, label_smoothing: Share = 0.0) -> None:
        super().__init__(task)
        self.label_smoothing = label_smoothing

    def __call__(self, outputs: Tensor, labels: Tensor, counts: Tensor) -> Tensor:  # type: ignore[override]
        """Outputs of the candidates of all rows, the right ones' numbers, how many each row has → a value per row."""
        logs, present = log_probabilities(outputs[:, 0], counts)
        right = logs.gather(1, labels[:, None])[:, 0]
        if not self.label_smoothing:
            return -right
        uniform = logs.masked_fill(~present, 0.0).sum(dim=1) / counts
        return -(1 - self.label_smoothing) * right - self.label_smoothing * uniform

    def predict(self, outputs: Tensor, counts: Tensor) -> Tensor:  # type: ignore[override]
        """[candidates] probabilities, which add up to 1 over those of a row."""
        logs, present = log_probabilities(outputs[:, 0], counts)
        return logs.exp()[present]

    def one_by_one(self, outputs: Tensor, right: Tensor) -> Tensor:
        """[candidates] −log σ(x) of a right one, −log(1 − σ(x)) of a wrong one: for solvers that know of no rows."""
        return F.binary_cross_entropy_with_logits(outputs[:, 0], right.to(outputs.dtype), reduction="none")


def log_probabilities(scores: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """[rows, most candidates] log-softmax over each row's own, −∞ behind them; and which are there."""
    most = int(counts.max())
    present = torch.arange(most, device=scores.device)[None, :] < counts[:, None]
    padded = scores.new_full((len(counts), most), float("-inf"))
    padded = padded.masked_scatter(present, scores)
    return padded.log_softmax(dim=1), present
