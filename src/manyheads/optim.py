"""AdamW's parameter groups, and the learning rate as a pure function of the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from manyheads.combine import Scalarizer
from manyheads.training_settings import Training


def parameter_groups(
    model: nn.Module, training: Training, scalarizers: Sequence[Scalarizer] = ()
) -> list[dict[str, Any]]:
    """Matrices and embeddings, which decay; biases and norms (all of one dimension), which do not; task weights.

    `peak` is a group's own peak rate; without one it follows the phase's.
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [one for one in trainable if one.ndim >= 2], "weight_decay": training.weight_decay, "peak": None},
        {"params": [one for one in trainable if one.ndim < 2], "weight_decay": 0.0, "peak": None},
    ]
    groups += [{"params": list(one.parameters()), "weight_decay": 0.0, "peak": one.rate} for one in scalarizers]
    return [{**group, "lr": group["peak"] or training.learning_rate} for group in groups if group["params"]]


def build_optimizer(model: nn.Module, training: Training, scalarizers: Sequence[Scalarizer] = ()) -> torch.optim.AdamW:
    groups = parameter_groups(model, training, scalarizers)
    return torch.optim.AdamW(groups, lr=training.learning_rate, betas=training.betas, eps=training.epsilon, fused=True)


def set_rates(optimizer: torch.optim.Optimizer, peak: float, factor: float) -> None:
    """The rate of every group at a step: its own peak, or else this one, times the factor."""
    for group in optimizer.param_groups:
        group["lr"] = (group["peak"] or peak) * factor


def rate_factor(step: int, steps: int, warmup: float) -> float:
    """What the peak rate is multiplied with at a step: rises linearly over the warm-up, then falls linearly to 0.

    step 0 already moves (1/w of the peak, w the warm-up's steps) and the last step still does.
    """
    warm = round(steps * warmup)
    if step < warm:
        return (step + 1) / (warm + 1)
    return (steps - step) / (steps - warm)
