"""The optimizer and its groups of parameters, and the learning rate as a pure function of the step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from manyheads.config.training import Shape, Training
from manyheads.parts.scalarizers import Scalarizer
from manyheads.training.task_adamw import TaskAdamW

TASK_WEIGHTS = "task weights"  # the group of what scalarizers learn


def parameter_groups(
    model: nn.Module, training: Training, scalarizers: Sequence[Scalarizer] = ()
) -> list[dict[str, Any]]:
    """What has the same rate and decay, together. Biases and norms (all of one dimension) do not decay.

    A group's rate is `peak`, or where that is None the phase's, times `factor`, times the schedule's factor.
    """
    groups: dict[tuple[float, float | None, float], dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            layer = _layer(model, name)
            peak = training.head_learning_rate if layer is None else None
            factor = _layer_factor(model, training, layer)
            decay = training.weight_decay if parameter.ndim >= 2 else 0.0
            group = groups.setdefault((factor, peak, decay), {"params": [], "layers": []})
            group["params"].append(parameter)
            group["layers"].append(layer)
    optimizer_groups: list[dict[str, Any]] = []
    for (factor, peak, decay), group in groups.items():
        name = _span(group["layers"])
        optimizer_groups.append(
            {"params": group["params"], "name": name, "weight_decay": decay, "factor": factor, "peak": peak}
        )
    for scalarizer in scalarizers:
        weights = list(scalarizer.parameters())
        peak = scalarizer.learning_rate
        if weights:
            optimizer_groups.append(
                {"params": weights, "name": TASK_WEIGHTS, "weight_decay": 0.0, "factor": 1.0, "peak": peak}
            )
    for group in optimizer_groups:
        group["lr"] = (group["peak"] or training.learning_rate) * group["factor"]
    return optimizer_groups


def _layer(model: nn.Module, name: str) -> int | None:
    """The encoder's layer that a parameter belongs to (0: the embeddings); None is a head's."""
    encoder = getattr(model, "encoder", None)
    return encoder.layer_of(name.removeprefix("encoder.")) if encoder and name.startswith("encoder.") else None


def _layer_factor(model: nn.Module, training: Training, layer: int | None) -> float:
    """ξ^(L − k) for layer k of L, the embeddings being layer 0, times its own factor."""
    if layer is None:
        return 1.0
    depth = int(model.encoder.depth)  # type: ignore[union-attr, arg-type]
    chosen_factor = 1.0
    if training.layer_learning_rates:
        chosen_factor = training.layer_learning_rates.of(depth).get(layer, 1.0)
    return training.layer_decay ** (depth - layer) * chosen_factor


def _span(layers_of_group: Sequence[int | None]) -> str:
    """'embeddings, layers 1–6, heads'."""
    layers = sorted({layer for layer in layers_of_group if layer})
    names = ["embeddings"] if 0 in layers_of_group else []
    if len(layers) == 1:
        names.append(f"layer {layers[0]}")
    elif layers:
        consecutive = layers == list(range(layers[0], layers[-1] + 1))
        names.append(f"layers {layers[0]}–{layers[-1]}" if consecutive else f"layers {', '.join(map(str, layers))}")
    if None in layers_of_group:
        names.append("heads")
    return ", ".join(names)


def relative_rates(optimizer: torch.optim.Optimizer, peak: float) -> dict[str, float]:
    """Of every group that learns: its rate as a multiple of the phase's, which is the same at all of its steps."""
    return {
        group["name"]: (group["peak"] or peak) * group["factor"] / peak
        for group in optimizer.param_groups
        if any(parameter.requires_grad for parameter in group["params"])
    }


def build_optimizer(
    model: nn.Module,
    training: Training,
    scalarizers: Sequence[Scalarizer] = (),
    layer_factors: Mapping[str, Mapping[int, float]] | None = None,  # task → layer → factor, where rates differ so
) -> torch.optim.Optimizer:
    """With g the gradient, η the rate and λ the decay:

    adamw   θ ← (1 − η·λ)·θ − η·m̂/(√v̂ + ε), m and v the running means of g and g²
    adam    θ ← θ − η·m̂/(√v̂ + ε), with g + λ·θ in place of g
    sgd     θ ← θ − η·b, b ← μ·b + g + λ·θ (the momentum μ is 0 by default)
    """
    groups = parameter_groups(model, training, scalarizers)
    rate = training.learning_rate
    if training.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=training.momentum, fused=True)
    settings: dict[str, Any] = {"lr": rate, "betas": training.betas, "eps": training.epsilon, "fused": True}
    if training.layer_factors_on != "gradients":
        factors = _task_factors(model, layer_factors or {})
        return TaskAdamW(groups, factors, own=training.layer_factors_on == "own-updates", **settings)
    adam = torch.optim.AdamW if training.optimizer == "adamw" else torch.optim.Adam
    return adam(groups, **settings)


def _task_factors(
    model: nn.Module, layer_factors: Mapping[str, Mapping[int, float]]
) -> dict[nn.Parameter, dict[str, float]]:
    """Of every parameter of the encoder, each task's factor where it has one."""
    factors = {}
    for name, parameter in model.named_parameters():
        layer = _layer(model, name)
        if layer is not None:
            factors[parameter] = {task: of_layer.get(layer, 1.0) for task, of_layer in layer_factors.items()}
    return factors


def set_rates(optimizer: torch.optim.Optimizer, peak: float, factor: float) -> None:
    """The rate of every group at a step, where the phase's peak and the schedule's factor are these."""
    for group in optimizer.param_groups:
        group["lr"] = (group["peak"] or peak) * group["factor"] * factor


def clip_gradients(optimizer: torch.optim.Optimizer, largest: float | None) -> float:
    """Shrink the gradients of all but task weights to norm `largest` where they are longer; returns what it was.

    As torch's clip_grad_norm_, which also goes through all gradients where there is nothing to shrink.
    """
    groups = [group["params"] for group in optimizer.param_groups if group["name"] != TASK_WEIGHTS]
    gradients = []
    for group in groups:
        gradients += [parameter.grad for parameter in group if parameter.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))).item() if gradients else 0.0
    if largest is not None and norm + 1e-6 > largest:
        torch._foreach_mul_(gradients, largest / (norm + 1e-6))
        if isinstance(optimizer, TaskAdamW):
            optimizer.scale_task_gradients(largest / (norm + 1e-6))
    return norm


def rate_factor(step: int, steps: int, warmup: float, shape: Shape = "linear") -> float:
    """What the peak rate is multiplied with at a step: rises linearly over the warm-up, then falls to 0, or stays.

    step 0 already moves (1/(w + 1) of the peak, w the warm-up's steps) and the last step still does.
    """
    warm = round(steps * warmup)
    if step < warm:
        return (step + 1) / (warm + 1)
    done = (step - warm) / (steps - warm)
    return {"linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2, "constant": 1.0}[shape]
