"""How the tasks of a run, or of a phase, are combined: a scalarizer, and an aggregator where gradients are changed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from manyheads.config.training import Average, CombineSettings, LossScale
from manyheads.errors import UserError
from manyheads.parts.aggregators.base import Aggregator
from manyheads.parts.scalarizers.base import Scalarizer

COPIES = {"float32": None, "bf16": torch.bfloat16}


class Combination(nn.Module):
    """Built from `combine`; its parameters and buffers are kept in checkpoints."""

    def __init__(
        self,
        scalarizer: Scalarizer,
        aggregator: Aggregator | None = None,
        layers: Sequence[int] | None = None,
        copies: torch.dtype | None = None,
        average: Average = "step",
        loss_scale: LossScale = "raw",
    ) -> None:
        super().__init__()
        self.scalarizer = scalarizer
        self.aggregator = aggregator
        self.layers = layers  # of the encoder, on which the aggregator acts; None: on all that tasks share
        self.copies = copies  # type of the task gradients kept aside; None: as they are
        self.average: Average = average  # what a task's loss is the mean of
        self.loss_scale: LossScale = loss_scale  # what it is divided by


def build_combination(settings: CombineSettings, tasks: Sequence[str], default_average: Average) -> Combination:
    """The parts that a recipe names; `tasks/compatibility.py` has said that they go together."""
    scalarizer: Scalarizer = settings.losses.build("scalarizers", tasks)
    average = settings.average or default_average
    if settings.gradients is None:
        return Combination(scalarizer, average=average, loss_scale=settings.loss_scale)
    aggregator: Aggregator = settings.gradients.build("aggregators", tasks)
    copies = COPIES[settings.copies]
    return Combination(scalarizer, aggregator, settings.layers, copies, average, settings.loss_scale)


def scalarized(losses: dict[str, float], shares: dict[str, float], combination: Combination) -> dict[str, float]:
    """The losses as the scalarizer weighs them. Where a task's share is one of examples, it weighs the mean loss, and
    the share acts afterwards: weights that are learnt from the losses do not undo what the sampler deals out."""
    if combination.average != "examples":
        return losses
    return {task: loss / shares[task] for task, loss in losses.items()}


def learn_weights(combination: Combination, losses: dict[str, float]) -> None:
    """The gradient of what the scalarizer learns, from the losses over all processes: the same in each of them."""
    scalarizer = combination.scalarizer
    if any(parameter.requires_grad for parameter in scalarizer.parameters()):
        scalarizer({task: torch.tensor(loss, dtype=torch.float64) for task, loss in losses.items()}).backward()


def checked_weights(weights: Tensor, tasks: list[str], aggregator: Aggregator) -> list[float]:
    """An aggregator's weights, one for each task."""
    name = type(aggregator).__name__
    if not isinstance(weights, Tensor) or weights.shape != (len(tasks),):
        described = f"a tensor of shape {list(weights.shape)}" if isinstance(weights, Tensor) else repr(weights)
        raise UserError(
            f"combine.gradients: {name} gave {described}; expected a weight for each of {', '.join(tasks)}.",
            "bad-weights",
        )
    if not torch.isfinite(weights).all():
        raise UserError(
            f"combine.gradients: {name} gave weights that are not finite: {weights.tolist()}.", "bad-weights"
        )
    return weights.tolist()
