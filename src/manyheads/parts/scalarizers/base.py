"""What a scalarizer must offer: losses → one loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from manyheads.errors import UserError
from manyheads.parts.task_names import check_tasks
from manyheads.registry import Positive, TaskName


class Scalarizer(nn.Module):
    """The losses of the tasks present in a step → one number. Tasks that are absent contribute nothing.

    `forward` is the formula; what each task's gradient is multiplied with follows from it. A scalarizer is built with
    the names of the run's tasks. Parameters that it has are learnt at its own `learning_rate`, or at the training's
    where that is None; buffers are its memory: both are in every checkpoint.
    """

    affine: ClassVar[bool] = True  # of the form Σ c_i·L_i + r, in which c and r do not depend on the losses
    learning_rate: float | None = None  # peak learning rate of its parameters; None is that of the training

    def __init__(self, tasks: Sequence[str]) -> None:
        super().__init__()
        self.tasks = list(tasks)

    def forward(self, losses: dict[str, Tensor]) -> Tensor:
        """The losses of the tasks present → one number."""
        raise NotImplementedError

    def factors(self, losses: dict[str, float]) -> dict[str, float]:
        """c_i = ∂(the one number)/∂L_i. Of an affine scalarizer the losses matter only by which tasks are there."""
        values = {task: torch.tensor(loss, dtype=torch.float64, requires_grad=True) for task, loss in losses.items()}
        with torch.enable_grad():
            total = self(values)
            if not isinstance(total, Tensor) or total.numel() != 1:
                raise UserError(
                    f"combine.losses: {type(self).__name__} gave {total!r}; expected one number in a tensor.",
                    code="not-one-number",
                )
            found = torch.autograd.grad(total, list(values.values()), allow_unused=True)  # a loss may be left out
        return {task: 0.0 if one is None else float(one) for task, one in zip(losses, found, strict=True)}

    def observe(self, losses: dict[str, float]) -> None:
        """Called after every step with its losses."""

    def end_epoch(self) -> None:
        """Called after every epoch."""


class LearntWeights(Scalarizer):
    """A weight w_i for every task, learnt with the model; each loss becomes one term of it and its weight.

    `learning_rate: null` learns w at the training's own rate (a phase's, where it has one). With Adam w moves by at
    most about a rate a step: at 1e-5, in a few thousand steps, hardly at all.
    """

    start: ClassVar[float] = 0.0

    def __init__(
        self,
        tasks: Sequence[str],
        *,
        learning_rate: Positive | None = 1e-3,
        weighted_tasks: list[TaskName] | None = None,
    ) -> None:
        super().__init__(tasks)
        self.learning_rate = learning_rate
        check_tasks("weighted_tasks", weighted_tasks or [], tasks)
        # a parameter of its own for each task: that of an absent task has no gradient, and so stays
        self.w = nn.ParameterDict(
            {_key(task): nn.Parameter(torch.tensor(self.start)) for task in weighted_tasks or tasks}
        )

    def term(self, w: Tensor, loss: Tensor) -> Tensor:
        """What one task adds."""
        raise NotImplementedError

    def forward(self, losses: dict[str, Tensor]) -> Tensor:
        terms = [self.term(self.w[_key(task)], loss) if _key(task) in self.w else loss for task, loss in losses.items()]
        return torch.stack(terms).sum()


def _key(task: str) -> str:
    """A ParameterDict refuses keys that are its own attributes, such as 'keys': tasks may be called so."""
    return f"{task}-weight"
