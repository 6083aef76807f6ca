"""Aggregators by torchjd: its weightings work on the Gramian alone. This file is all that knows of them.

Some of them solve a small programme at every step and need a solver: pip install 'manyheads[surgery]'. torchjd is
imported where a weighting is made: with its solvers it takes as long to import as torch, and most runs use none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from manyheads.errors import UserError
from manyheads.parts.aggregators.base import Aggregator
from manyheads.registry import Count, NotNegative, Positive, register


class _Weighting(Aggregator):
    """One of torchjd's weightings."""

    def __init__(self, tasks: Sequence[str], make: Callable[..., Any], **options: Any) -> None:
        super().__init__(tasks)
        try:
            self.weighting = make(**options)
        except ImportError:
            raise ValueError("it needs a solver that is not installed: pip install 'manyheads[surgery]'.") from None

    def scale(self, size: Tensor) -> Tensor:
        """What the weights of a Gramian are multiplied with where all of it is `size` times as large."""
        return torch.ones_like(size)

    def forward(self, gramian: Tensor, present: Sequence[str]) -> Tensor:
        size = gramian.diagonal().mean()
        if not size > 0:
            return torch.ones_like(gramian[0])
        try:  # of a Gramian of size 1: torchjd takes gradients shorter than 0.01 for none, or its solvers do not end
            return self.scale(size) * self.weighting(gramian / size)
        except Exception as error:  # whatever a solver raises
            name = type(self).__name__
            raise UserError(
                f"combine.gradients: {name} found no weights for the task gradients of {', '.join(present)}: {error}.\n"
                f"Their inner products: {gramian.tolist()}. Try 'pcgrad', which needs no solver.",
                code="solver-failed",
            ) from None


def _projector() -> Any:
    from torchjd.linalg import QuadprogProjector

    return QuadprogProjector(reg_eps=1e-6)  # the Gramian's own rounding; torchjd's 1e-4 would be seen in the weights


@register("aggregators", "pcgrad", paper="C, D")
class PCGrad(_Weighting):
    """Each gradient loses its part that points against another's, each in random order; then sum, or mean.

    For each i: p = g_i; for every j ≠ i in random order: if p·g_j < 0: p ← p − (p·g_j/‖g_j‖²)·g_j; then Σ p, or its
    mean (paper D). "Gradient Surgery for Multi-Task Learning" (2020).
    """

    def __init__(self, tasks: Sequence[str], *, reduction: Literal["sum", "mean"] = "sum") -> None:
        from torchjd.aggregation import PCGradWeighting

        super().__init__(tasks, PCGradWeighting)
        self.reduction = reduction

    def forward(self, gramian: Tensor, present: Sequence[str]) -> Tensor:
        weights = super().forward(gramian, present)
        return weights / len(present) if self.reduction == "mean" else weights


@register("aggregators", "mgda")
class MGDA(_Weighting):
    """The shortest of all Σ w_i·g_i with w ≥ 0, Σ w = 1: no task's loss rises, to first order.

    By Frank–Wolfe: "Multi-Task Learning as Multi-Objective Optimization" (2018).
    """

    def __init__(self, tasks: Sequence[str], *, tolerance: Positive = 1e-3, iterations: Count = 100) -> None:
        from torchjd.aggregation import MGDAWeighting

        super().__init__(tasks, MGDAWeighting, epsilon=tolerance, max_iters=iterations)


@register("aggregators", "upgrad")
class UPGrad(_Weighting):
    """The mean of the gradients, each projected to where it is against none; needs a solver (extra `surgery`).

    The projection of g_i/T is onto the dual cone {x: x·g_j ≥ 0 for every j}: "Jacobian Descent for Multi-Objective
    Optimization" (2024).
    """

    def __init__(self, tasks: Sequence[str]) -> None:
        from torchjd.aggregation import UPGradWeighting

        super().__init__(tasks, lambda: UPGradWeighting(projector=_projector()))


@register("aggregators", "dualproj")
class DualProj(_Weighting):
    """The mean gradient, projected to where it is against no task; needs a solver (extra `surgery`).

    "Gradient Episodic Memory for Continual Learning" (2017).
    """

    def __init__(self, tasks: Sequence[str]) -> None:
        from torchjd.aggregation import DualProjWeighting

        super().__init__(tasks, lambda: DualProjWeighting(projector=_projector()))


@register("aggregators", "cagrad")
class CAGrad(_Weighting):
    """Near the mean gradient, the direction best for the task it serves worst; needs a solver (extra `surgery`).

    max over ‖d − ḡ‖ ≤ c·‖ḡ‖ of min_i g_i·d: c = 0 is the mean. "Conflict-Averse Gradient Descent" (2021).
    """

    def __init__(self, tasks: Sequence[str], *, c: NotNegative = 0.5) -> None:
        from torchjd.aggregation import CAGradWeighting

        super().__init__(tasks, CAGradWeighting, c=c, norm_eps=1e-12)

    def forward(self, gramian: Tensor, present: Sequence[str]) -> Tensor:
        weights = super().forward(gramian, present)
        if weights.any():
            return weights
        return torch.full_like(weights, 1 / len(present))  # a task has no gradient, so none is best for it: the mean


@register("aggregators", "imtl-g")
class ImpartialGradients(_Weighting):
    """IMTL-G: the Σ w_i·g_i, Σ w = 1, whose projection on every task's direction is equally long.

    w ∝ G⁺·√diag(G). "Towards Impartial Multi-task Learning" (2021); its loss balance is the scalarizer `imtl-l`.
    """

    def __init__(self, tasks: Sequence[str]) -> None:
        from torchjd.aggregation import IMTLGWeighting

        super().__init__(tasks, IMTLGWeighting)


@register("aggregators", "aligned-mtl")
class AlignedMTL(_Weighting):
    """Gradients made orthogonal and equally long, as near to the real ones as can be; then the mean.

    w = √λ·V·Λ^(−½)·Vᵀ·1/T, with G = V·Λ·Vᵀ and λ its smallest eigenvalue (or median, or mean: `rmse`). "Independent
    Component Alignment for Multi-Task Learning" (2023).
    """

    def __init__(self, tasks: Sequence[str], *, scale: Literal["min", "median", "rmse"] = "min") -> None:
        from torchjd.aggregation import AlignedMTLWeighting

        super().__init__(tasks, AlignedMTLWeighting, scale_mode=scale)


@register("aggregators", "fairgrad")
class FairGrad(_Weighting):
    """α-fair shares of the improvement: the w with G·w = w^(−1/α); α = 1 is Nash-MTL's bargain.

    "Fair Resource Allocation in Multi-Task Learning" (2024).
    """

    def __init__(self, tasks: Sequence[str], *, alpha: Positive = 1.0, iterations: Count | None = None) -> None:
        from torchjd.aggregation import FairGradWeighting

        super().__init__(tasks, FairGradWeighting, alpha=alpha, max_iters=iterations)
        self.alpha = alpha

    def scale(self, size: Tensor) -> Tensor:
        return size ** (-self.alpha / (self.alpha + 1))  # s·G·w = w^(−1/α) has the solution of G, times this
