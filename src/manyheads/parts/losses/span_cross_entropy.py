"""Cross-entropy over the places where an answer may begin and end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn import functional as F

from manyheads.data.labels import LabelType
from manyheads.parts.losses.base import Loss
from manyheads.parts.losses.choice_cross_entropy import log_probabilities
from manyheads.registry import Count, register

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("losses", "span-cross-entropy")
class SpanCrossEntropy(Loss):
    """−(log p_s + log q_e)/2 of each row: p, q are softmaxes over all its tokens and 'no answer', s, e the right ones.

    Two outputs per token; 'no answer' is read at [CLS]. All windows of a long text share one softmax. `longest`: tokens
    that a predicted answer may have. A frozen probe solves the tokens one by one.
    Relations: `tag-cross-entropy` where a text has any number of spans, of several types.
    """

    label_types: tuple[LabelType, ...] = ("answer",)
    reads_sentences = True
    average = "example"

    def __init__(self, task: Task, *, longest: Count = 30) -> None:
        super().__init__(task)
        self.longest = longest  # read by the kind, from the task

    def __call__(self, outputs: Tensor, labels: Tensor, counts: Tensor) -> Tensor:  # type: ignore[override]
        """Outputs [tokens, 2] of all rows, the right places [rows, 2], and how many each row has → a value per row."""
        starts, _ = log_probabilities(outputs[:, 0], counts)
        ends, _ = log_probabilities(outputs[:, 1], counts)
        right = starts.gather(1, labels[:, :1]) + ends.gather(1, labels[:, 1:])
        return -right[:, 0] / 2

    def predict(self, outputs: Tensor, counts: Tensor) -> Tensor:  # type: ignore[override]
        """[tokens, 2] log p and log q."""
        logs = outputs.new_empty(outputs.shape)
        for side in (0, 1):
            padded, present = log_probabilities(outputs[:, side], counts)
            logs[:, side] = padded[present]
        return logs

    def one_by_one(self, outputs: Tensor, right: Tensor) -> Tensor:
        """[tokens] whether each begins the answer, and whether it ends it."""
        return F.binary_cross_entropy_with_logits(outputs, right.to(outputs.dtype), reduction="none").sum(dim=1)
