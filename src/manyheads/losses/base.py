"""What a loss must offer. It sees tensors only, never the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from manyheads.tasks import Task


class Loss:
    """(outputs, labels) → one value per example; and how outputs are read as a prediction."""

    def unfit(self, task: Task) -> str | None:
        """Why this loss cannot serve the task, or None."""
        raise NotImplementedError

    def outputs(self, classes: int) -> int:
        """How many outputs the head gives; `classes` is 0 for regression."""
        raise NotImplementedError

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Outputs [examples, outputs], labels [examples] → loss [examples]."""
        raise NotImplementedError

    def predict(self, outputs: Tensor) -> Tensor:
        """Class probabilities [examples, classes], or a regression's values [examples]."""
        raise NotImplementedError
