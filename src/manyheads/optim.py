"""AdamW's parameter groups, and the learning rate as a pure function of the step."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from manyheads.recipe import Training


def parameter_groups(model: nn.Module, training: Training) -> list[dict[str, Any]]:
    """Two groups: matrices and embeddings decay, biases and norms (everything of one dimension) do not."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [one for one in trainable if one.ndim >= 2], "weight_decay": training.weight_decay},
        {"params": [one for one in trainable if one.ndim < 2], "weight_decay": 0.0},
    ]
    return [{**group, "lr": training.learning_rate} for group in groups if group["params"]]


def build_optimizer(model: nn.Module, training: Training) -> torch.optim.AdamW:
    groups = parameter_groups(model, training)
    return torch.optim.AdamW(groups, lr=training.learning_rate, betas=training.betas, eps=training.epsilon, fused=True)


def rate_factor(step: int, steps: int, warmup: float) -> float:
    """What the peak rate is multiplied with at a step: rises linearly over the warm-up, then falls linearly to 0.

    step 0 already moves (1/w of the peak, w the warm-up's steps) and the last step still does.
    """
    warm = round(steps * warmup)
    if step < warm:
        return (step + 1) / (warm + 1)
    return (steps - step) / (steps - warm)
