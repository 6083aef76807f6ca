"""Rates that differ by task and layer (paper A, selective rates): factors that AdamW does not undo.

Of one weight θ of the encoder, with g_i what task i sends to it (weighted as the scalarizer says), f_i the task's
factor for its layer, η the rate, λ the decay and m̂, v̂ the running means of gradients and their squares, corrected:

    gradients     one Adam of Σ f_i·g_i, which is no business of this file. A factor that all tasks share cancels:
                  m̂/√v̂ is the same for gradients of any size.
    updates       θ ← (1 − η·λ)·θ − η·Σ f_i·m̂_i/(√v̂ + ε): the one Adam's update has a part of each task, m̂ = Σ m̂_i with
                  m_i of g_i and v of Σ g_i, and each part has its rate. With factors of 1 this is AdamW. Because the
                  factors stay, Σ f_i·m_i is the running mean of Σ f_i·g_i, and no task needs a moment of its own.
    own-updates   θ ← (1 − η·λ)·θ − η·Σ f_i·m̂_i/(√v̂_i + ε): every task has an Adam of its own, which rests where the
                  task is absent. Updates of T tasks add up to steps about T times as long, and weights of losses
                  cancel, because each Adam undoes its own.

Everything but the encoder keeps the plain AdamW.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from manyheads.training.gradients.tables import Rows

TaskFactors = Mapping[Parameter, Mapping[str, float]]  # encoder parameter → task → factor


class TaskAdamW(torch.optim.AdamW):
    """AdamW that is told every task's gradient of the encoder before each step."""

    def __init__(self, groups: list[dict[str, Any]], factors: TaskFactors, own: bool, **settings: Any) -> None:
        super().__init__(groups, **settings)
        self.factors, self.own = factors, own
        self.task_gradients: dict[Parameter, dict[str, Tensor | Rows]] = {}

    def needs_task_gradients(self, tasks: list[str]) -> bool:
        """Whether a step of these tasks must keep their gradients apart."""
        if self.own:
            return True
        return any(of_task.get(task, 1.0) != 1 for of_task in self.factors.values() for task in tasks)

    def scale_task_gradients(self, factor: float) -> None:
        """As clipping scales their sum."""
        for gradients in self.task_gradients.values():
            for gradient in gradients.values():
                (gradient.values if isinstance(gradient, Rows) else gradient).mul_(factor)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                gradients = self.task_gradients.get(parameter)
                if gradients is None or parameter.grad is None:
                    continue
                if self.own:
                    self._own_updates(parameter, gradients, group)
                else:
                    self._updates(parameter, gradients, group)
        self.task_gradients = {}
        return super().step(closure)  # of all that has a gradient left

    def _updates(self, parameter: Parameter, gradients: dict[str, Tensor | Rows], group: dict[str, Any]) -> None:
        """What has no factor but 1 is left to AdamW itself."""
        factors = {task: self.factors[parameter].get(task, 1.0) for task in gradients}
        if all(factor == 1 for factor in factors.values()):
            return
        total = parameter.grad
        assert total is not None
        scaled = total.clone()  # not Σ f_i·g_i: a penalty on weights is in the sum and belongs to no task
        for task, gradient in gradients.items():
            _add(scaled, gradient, factors[task] - 1)
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        update = self._update(parameter, "", scaled, total, group)
        parameter.add_(update, alpha=-group["lr"])
        parameter.grad = None

    def _own_updates(self, parameter: Parameter, gradients: dict[str, Tensor | Rows], group: dict[str, Any]) -> None:
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        for task, gradient in gradients.items():
            dense = _add(torch.zeros_like(parameter), gradient, 1.0) if isinstance(gradient, Rows) else gradient
            update = self._update(parameter, f" of {task}", dense, dense, group)
            parameter.add_(update, alpha=-group["lr"] * self.factors[parameter].get(task, 1.0))
        parameter.grad = None

    def _update(
        self, parameter: Parameter, suffix: str, first: Tensor, second: Tensor, group: dict[str, Any]
    ) -> Tensor:
        """m̂/(√v̂ + ε) with m of the first gradient and v of the second one's squares; moments are kept by name."""
        state = self.state[parameter]
        if f"step{suffix}" not in state:
            state[f"step{suffix}"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
            state[f"exp_avg{suffix}"] = torch.zeros_like(parameter)
            state[f"exp_avg_sq{suffix}"] = torch.zeros_like(parameter)
        steps, m, v = (state[f"{moment}{suffix}"] for moment in ("step", "exp_avg", "exp_avg_sq"))
        beta1, beta2 = group["betas"]
        steps += 1
        m.lerp_(first, 1 - beta1)
        v.mul_(beta2).addcmul_(second, second, value=1 - beta2)
        count = steps.item()
        root = v.sqrt().div_(math.sqrt(1 - beta2**count)).add_(group["eps"])
        return (m / (1 - beta1**count)).div_(root)


def _add(total: Tensor, gradient: Tensor | Rows, factor: float) -> Tensor:
    """total + factor·gradient, in place."""
    if isinstance(gradient, Rows):
        return total.index_add_(0, gradient.rows, gradient.values.to(total.dtype), alpha=factor)
    return total.add_(gradient, alpha=factor)
