"""Predictions that do not depend on the dropout mask: "R-Drop" (Liang et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from manyheads.parts.regularisers.base import ForwardPass, Regulariser, divergence
from manyheads.registry import NotNegative, TaskName, register


@register("regularisers", "r-drop")
class RDrop(Regulariser):
    """λ·½·[KL(p₁‖p₂) + KL(p₂‖p₁)]: two passes of an example with different dropout masks must predict alike.

    p₁ is what the pass of the loss predicts, p₂ what a second pass of the same inputs predicts with dropout masks of
    its own, those of the embeddings included. KL is over classes; where each class is a yes or no of its own
    (multi-label tasks, and two classes by one sigmoid output) it is that of Bernoulli variables, summed over them.
    Numbers have λ·(f₁ − f₂)², without the ½. Both passes learn from the term. Without dropout it is exactly 0.

    The paper also trains on the cross-entropy of both passes: −ln p₁(y) − ln p₂(y) + α·½·[KL(p₁‖p₂) + KL(p₂‖p₁)]. A
    regulariser sees no labels, so here the loss is that of the first pass alone. λ = α/2 weighs the two parts as the
    paper does, and the gradient of the loss has the same mean, but the noise of one mask in place of two.

    `smart` with `masks: independent` compares two masks as well, but at embeddings that it has perturbed.
    """

    reruns = False  # the second pass reads the very inputs of the first, merged or not

    def __init__(self, names: Sequence[str], *, weight: NotNegative = 0.5, tasks: list[TaskName] | None = None) -> None:
        super().__init__(names, weight, tasks)

    def terms(self, forward_pass: ForwardPass) -> list[Tensor]:
        second_outputs = forward_pass.redrawn()
        terms = []
        for task, first, second in zip(forward_pass.packed.tasks, forward_pass.outputs, second_outputs, strict=True):
            loss = forward_pass.model.head(task).loss
            apart = divergence(loss, first, second)  # KL + KL, or the squared difference
            terms.append(apart / 2 if loss.task.kind.has_classes else apart)
        return terms
