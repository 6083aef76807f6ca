"""Steps that stay near where the model was: "SMART" (2020), the Bregman proximal point term."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from manyheads.parts.regularisers.base import ForwardPass, RegularisedModel, Regulariser, divergence
from manyheads.registry import NotNegative, Share, TaskName, register


@register("regularisers", "bregman", paper="C")
class Bregman(Regulariser):
    """λ·l(f(x; θ), f(x; θ̃)), with θ̃ ← β·θ̃ + (1 − β)·θ: the model may not run away from its own slow average.

    l is symmetric KL, for a regression the squared difference; β is `momentum`. θ̃ is a second copy of all weights, and
    each step costs one more forward pass.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        weight: NotNegative = 1.0,
        momentum: Share = 0.99,
        tasks: list[TaskName] | None = None,
    ) -> None:
        super().__init__(names, weight, tasks)
        self.momentum = momentum

    def describe(self, model: RegularisedModel) -> str:
        size = sum(one.numel() for one in model.parameters()) * 4 / 1e6
        return f"{super().describe(model)} (a second copy of all weights: {size:,.0f} MB)"

    def begin(self, model: RegularisedModel) -> None:
        for name, parameter in model.named_parameters():
            self.register_buffer(_key(name), parameter.detach().clone())

    def terms(self, forward_pass: ForwardPass) -> list[Tensor]:
        names = [name for name, _ in forward_pass.model.named_parameters()]
        with torch.no_grad():
            before = forward_pass.again({name: getattr(self, _key(name)) for name in names})
        return [
            divergence(forward_pass.model.head(task).loss, one, other)
            for task, one, other in zip(forward_pass.packed.tasks, forward_pass.outputs, before, strict=True)
        ]

    @torch.no_grad()
    def after_step(self, model: RegularisedModel) -> None:
        for name, parameter in model.named_parameters():
            getattr(self, _key(name)).lerp_(parameter, 1 - self.momentum)


def _key(name: str) -> str:
    return name.replace(".", "/")  # a buffer's name has no dots
