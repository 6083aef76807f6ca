"""What smart-pytorch 0.0.4 compares outputs with: softmax of logits, with one side of each KL held still."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from manyheads.parts.losses import Loss


def library_ascent(loss: Loss, perturbed: Tensor, clean: Tensor) -> Tensor:
    """KL(q‖p), [examples], p of the perturbed outputs and q of the clean ones; the squared difference of numbers."""
    if not loss.task.kind.has_classes:
        return _squared(perturbed, clean)
    return _kl(_log_probabilities(loss, clean), _log_probabilities(loss, perturbed))


def library_term(loss: Loss, perturbed: Tensor, clean: Tensor, count: float) -> Tensor:
    """n·[KL(sg q‖p) + KL(sg p‖q)], [examples], sg a stop of the gradient; the squared difference of numbers.

    n is the step's `count` of examples. A task's loss is a mean over them, the library's symmetric KL a sum; its
    squared difference (`torch.nn.MSELoss`) is a mean.
    """
    if not loss.task.kind.has_classes:
        return _squared(perturbed, clean)
    log_p, log_q = _log_probabilities(loss, perturbed), _log_probabilities(loss, clean)
    return count * (_kl(log_q.detach(), log_p) + _kl(log_p.detach(), log_q))


def _squared(first: Tensor, second: Tensor) -> Tensor:
    return ((first - second) ** 2).mean(dim=-1)


def _log_probabilities(loss: Loss, outputs: Tensor) -> Tensor:
    """ln softmax, whatever the loss makes of the outputs: [examples, 1, classes].

    One output z is two logits, 0 and z, as is each of a multi-label task, [examples, outputs, 2]: the softmax of one
    logit alone, which the library would take, is 1 whatever z is.
    """
    if loss.task.kind.exclusive and outputs.shape[-1] > 1:
        return outputs.log_softmax(dim=-1)[:, None]
    return torch.stack([torch.zeros_like(outputs), outputs], dim=-1).log_softmax(dim=-1)


def _kl(log_target: Tensor, log_predicted: Tensor) -> Tensor:
    """Σ t·(ln t − ln p), [examples]."""
    return (log_target.exp() * (log_target - log_predicted)).sum(dim=(-2, -1))
