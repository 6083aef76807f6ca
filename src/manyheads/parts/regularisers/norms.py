"""Penalties on the size of weights, added to the loss (decoupled weight decay is the optimizer's)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from manyheads.parts.regularisers.base import RegularisedModel, Regulariser
from manyheads.registry import NotNegative, register

Where = Literal["all", "encoder", "heads"] | list[Annotated[int, Field(ge=0)]]  # or layers; 0 is the embeddings
Which = Literal["weights", "all"]


class _Norm(Regulariser):
    """λ·Σ over `parameters`; what got no gradient in the step, as the head of an absent task, is left alone.

    weights   matrices; biases and the scales of norms (all of one dimension) stay as they are, as with weight decay
    all       every parameter, as the sum over "each parameter" in paper C
    """

    reads_examples = False

    def __init__(self, names: Sequence[str], weight: float, on: Where, parameters: Which) -> None:
        super().__init__(names, weight)
        self.on, self.which = on, parameters

    def size(self, w: Tensor) -> Tensor:
        raise NotImplementedError

    def slope(self, w: Tensor) -> Tensor:
        raise NotImplementedError

    def _wanted(self, model: RegularisedModel, name: str, parameter: Tensor) -> bool:
        if self.which == "weights" and parameter.ndim < 2:
            return False
        inside = name.startswith("encoder.")
        if isinstance(self.on, list):
            return inside and model.encoder.layer_of(name.removeprefix("encoder.")) in self.on
        return self.on == "all" or (self.on == "encoder") == inside

    @torch.no_grad()
    def penalise(self, model: RegularisedModel) -> float:
        total = 0.0
        for name, parameter in model.named_parameters():
            if parameter.grad is not None and self._wanted(model, name, parameter):
                total += self.weight * self.size(parameter).item()
                parameter.grad.add_(self.slope(parameter), alpha=self.weight)
        return total


@register("regularisers", "l1", paper="C")
class L1(_Norm):
    """λ·Σ |w|: pulls every weight towards 0 with the same force, and some of them to it."""

    def __init__(
        self, names: Sequence[str], *, weight: NotNegative = 1e-4, on: Where = "all", parameters: Which = "weights"
    ) -> None:
        super().__init__(names, weight, on, parameters)

    def size(self, w: Tensor) -> Tensor:
        return w.abs().sum()

    def slope(self, w: Tensor) -> Tensor:
        return w.sign()


@register("regularisers", "l2", paper="C")
class L2(_Norm):
    """λ·Σ w²: pulls large weights towards 0; unlike weight decay it goes through Adam's scaling."""

    def __init__(
        self, names: Sequence[str], *, weight: NotNegative = 1e-3, on: Where = "all", parameters: Which = "weights"
    ) -> None:
        super().__init__(names, weight, on, parameters)

    def size(self, w: Tensor) -> Tensor:
        return (w**2).sum()

    def slope(self, w: Tensor) -> Tensor:
        return 2 * w
