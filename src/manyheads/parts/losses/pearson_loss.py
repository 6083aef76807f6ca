"""Pearson loss: the correlation itself."""

from __future__ import annotations

from torch import Tensor

from manyheads.parts.losses.base import Loss
from manyheads.registry import register

SMALLEST = 1e-8  # guards root and division where all outputs or labels are equal


@register("losses", "pearson-loss")
class PearsonLoss(Loss):
    """1 − r: one minus the correlation of outputs and labels over the batch.

    r = Σ(x − x̄)(y − ȳ) / √(Σ(x − x̄)²·Σ(y − ȳ)²); x: outputs, y: labels. One value for the whole batch, so a batch has
    at least two examples, better sixteen and more, and accumulating it over batches needs `combine.average: batch`. A
    batch whose labels are all equal has no correlation and teaches nothing.
    Relations: `cosent` asks only for the order; `mse` for the values. Predictions have no right level of their own:
    look at correlations, not at errors.
    """

    label_types = ("number",)
    whole_batch = True

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        x, y = outputs[:, 0], labels.to(outputs.dtype)
        x, y = x - x.mean(), y - y.mean()
        r = (x * y).sum() / ((x * x).sum() * (y * y).sum() + SMALLEST**2).sqrt()
        return (1 - r).expand(len(x))
