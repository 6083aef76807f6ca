"""Smoothness under small changes of the embeddings: "SMART" (2020), the adversarial term."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from manyheads.parts.regularisers.base import ForwardPass, Regulariser, divergence
from manyheads.registry import Count, NotNegative, Positive, TaskName, register


@register("regularisers", "smart", paper="C, E")
class Smart(Regulariser):
    """λ·max over ‖δ‖ ≤ ε of l(f(x + δ), f(x)): outputs must not change where embeddings change a little.

    l is symmetric KL, for a regression the squared difference. The worst δ is sought by `steps` ascents from noise of
    size σ, on the embedding output (with transformers' own encoders on word embeddings), with g = ∇_δ l:

        ball        δ ← Π(δ + η·g/‖g‖), Π the projection into ‖δ‖ ≤ ε: the formula of the papers
        normalise   δ ← (δ + η·g)/(‖δ + η·g‖ + ε): what the library of paper E does, so that ‖δ‖ is nearly 1

    ‖·‖ is that of one token: the largest entry (`inf`) or the Euclidean norm (`l2`). The ascent computes no gradient
    of weights. `masks: shared` runs all passes with the same dropout masks; with `independent` ones the term mostly
    measures dropout.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        weight: NotNegative = 0.45,
        form: Literal["normalise", "ball"] = "normalise",
        steps: Count = 1,
        sigma: Positive = 1e-5,
        epsilon: Positive = 1e-6,
        eta: Positive = 1e-3,
        norm: Literal["inf", "l2"] = "inf",
        masks: Literal["shared", "independent"] = "shared",
        tasks: list[TaskName] | None = None,
    ) -> None:
        super().__init__(names, weight, tasks)
        self.form, self.steps, self.norm = form, steps, norm
        self.sigma, self.epsilon, self.eta = sigma, epsilon, eta
        self.same_masks = masks == "shared"

    def terms(self, forward_pass: ForwardPass) -> list[Tensor]:
        target = [output.detach() for output in forward_pass.outputs]
        embedded = forward_pass.embedded.detach()
        delta = self.sigma * torch.randn_like(embedded)
        for _ in range(self.steps):
            delta.requires_grad_()
            with torch.enable_grad():  # also where the step only looks at its losses
                apart = self._apart(forward_pass, forward_pass.read(embedded + delta, self.same_masks), target)
                mean = torch.stack(
                    [divergences.sum() / count for divergences, count in zip(apart, forward_pass.counts, strict=True)]
                ).sum()
            (gradient,) = torch.autograd.grad(mean, delta)  # of nothing else: weights get none
            delta = self.move(delta.detach(), gradient)
        return self._apart(
            forward_pass, forward_pass.read(forward_pass.embedded + delta, self.same_masks), forward_pass.outputs
        )

    def move(self, delta: Tensor, gradient: Tensor) -> Tensor:
        """One ascent, token by token."""
        if self.form == "normalise":
            moved = delta + self.eta * gradient
            return moved / (self._size(moved) + self.epsilon)
        moved = delta + self.eta * gradient / self._size(gradient).clamp(min=torch.finfo(delta.dtype).tiny)
        if self.norm == "inf":
            return moved.clamp(-self.epsilon, self.epsilon)
        return moved * (self.epsilon / self._size(moved)).clamp(max=1)

    def _size(self, values: Tensor) -> Tensor:
        order = float("inf") if self.norm == "inf" else 2.0
        return torch.linalg.vector_norm(values, ord=order, dim=-1, keepdim=True)

    def _apart(self, forward_pass: ForwardPass, outputs: list[Tensor], target: list[Tensor]) -> list[Tensor]:
        return [
            divergence(forward_pass.model.head(task).loss, output, detached)
            for task, output, detached in zip(forward_pass.packed.tasks, outputs, target, strict=True)
        ]
