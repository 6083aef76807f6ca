"""Smoothness under small changes of the embeddings: "SMART" (2020), the adversarial term."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from manyheads.parts.regularisers.base import ForwardPass, Regulariser, divergence
from manyheads.parts.regularisers.library import library_ascent, library_term
from manyheads.registry import Count, NotNegative, Positive, TaskName, register


@register("regularisers", "smart", paper="C, E")
class Smart(Regulariser):
    """λ·max over ‖δ‖ ≤ ε of l(f(x + δ), f(x)): outputs must not change where embeddings change a little.

    The worst δ is sought by `steps` ascents from noise of size σ, on the embedding output (with transformers' own
    encoders on word embeddings). With g = ∇_δ l:

        ball        δ ← Π(δ + η·g/‖g‖), Π the projection into ‖δ‖ ≤ ε: the formula of the papers
        normalise   δ ← (δ + η·g)/(‖δ + η·g‖ + ε), so that ‖δ‖ is nearly 1: shares with smart-pytorch, the library of
                    paper E, only this perturbation
        library     all of smart-pytorch 0.0.4: the same perturbation, and its own l, batch sum and dropout masks

    ‖·‖ is that of one token: the largest entry (`inf`) or the Euclidean norm (`l2`). The ascent computes no gradient
    of weights. With p and q the predictions at x + δ and x, the task's loss has λ times

        ball, normalise   the mean over examples of KL(p‖q) + KL(q‖p), p and q as the task's loss predicts them;
                          the ascent climbs the same
        library           the sum over the step's examples of KL(sg q‖p) + KL(sg p‖q), p and q the softmax of outputs,
                          sg a stop of the gradient; the ascent climbs the mean of KL(q‖p)

    and for a regression, in all forms, the mean of (f(x + δ) − f(x))². `masks: shared` runs all passes of an example
    with the same dropout masks; `independent` ones are drawn anew in every pass, and the term then mostly measures
    dropout. By default they are shared, in the form `library` independent.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        weight: NotNegative = 0.45,
        form: Literal["normalise", "ball", "library"] = "normalise",
        steps: Count = 1,
        sigma: Positive = 1e-5,
        epsilon: Positive = 1e-6,
        eta: Positive = 1e-3,
        norm: Literal["inf", "l2"] = "inf",
        masks: Literal["shared", "independent"] | None = None,
        tasks: list[TaskName] | None = None,
    ) -> None:
        super().__init__(names, weight, tasks)
        self.form, self.steps, self.norm = form, steps, norm
        self.sigma, self.epsilon, self.eta = sigma, epsilon, eta
        self.same_masks = form != "library" if masks is None else masks == "shared"

    def terms(self, forward_pass: ForwardPass) -> list[Tensor]:
        target = [output.detach() for output in forward_pass.outputs]
        embedded = forward_pass.embedded.detach()
        delta = self.sigma * torch.randn_like(embedded)
        for _ in range(self.steps):
            delta.requires_grad_()
            with torch.enable_grad():  # also where the step only looks at its losses
                outputs = forward_pass.read(embedded + delta, self.same_masks)
                mean = self._ascent(forward_pass, outputs, target)
            (gradient,) = torch.autograd.grad(mean, delta)  # of nothing else: weights get none
            delta = self.move(delta.detach(), gradient)
        return self._terms(forward_pass, forward_pass.read(forward_pass.embedded + delta, self.same_masks))

    def move(self, delta: Tensor, gradient: Tensor) -> Tensor:
        """One ascent, token by token."""
        if self.form == "ball":
            moved = delta + self.eta * gradient / self._size(gradient).clamp(min=torch.finfo(delta.dtype).tiny)
            if self.norm == "inf":
                return moved.clamp(-self.epsilon, self.epsilon)
            return moved * (self.epsilon / self._size(moved)).clamp(max=1)
        moved = delta + self.eta * gradient
        return moved / (self._size(moved) + self.epsilon)

    def _size(self, values: Tensor) -> Tensor:
        order = float("inf") if self.norm == "inf" else 2.0
        return torch.linalg.vector_norm(values, ord=order, dim=-1, keepdim=True)

    def _ascent(self, forward_pass: ForwardPass, outputs: list[Tensor], target: list[Tensor]) -> Tensor:
        """What is climbed: each task's mean over the examples of the step, or this pass's part of it; then the sum."""
        apart = library_ascent if self.form == "library" else divergence
        means = []
        for task, count, perturbed, clean in zip(
            forward_pass.packed.tasks, forward_pass.counts, outputs, target, strict=True
        ):
            means.append(apart(forward_pass.model.head(task).loss, perturbed, clean).sum() / count)
        return torch.stack(means).sum()

    def _terms(self, forward_pass: ForwardPass, outputs: list[Tensor]) -> list[Tensor]:
        terms = []
        for task, count, perturbed, clean in zip(
            forward_pass.packed.tasks, forward_pass.counts, outputs, forward_pass.outputs, strict=True
        ):
            loss = forward_pass.model.head(task).loss
            if self.form == "library":
                terms.append(library_term(loss, perturbed, clean, count))
            else:
                terms.append(divergence(loss, perturbed, clean))
        return terms
