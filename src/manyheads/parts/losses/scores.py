"""Losses of similarities: what the score of a pair is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from manyheads.parts.losses.base import Loss
from manyheads.registry import find

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


class ScoreLoss(Loss):
    """A loss of one score per example: 2p − 1 of the encoding's similarity p, else the head's output."""

    label_types = ("number", "class")

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.similarity = find("encodings", task.encoding.name).factory.gives != "features"
        self.low, self.high = task.scaled_bounds

    @classmethod
    def why_incompatible(cls, task: Task) -> str | None:
        if task.kind.label_type in cls.label_types and not task.kind.reads_similarity(task):
            return f"'{task.loss.name}' needs numbers or two classes, this task has {len(task.labels.names)} classes."
        return super().why_incompatible(task)

    @property
    def outputs(self) -> int:
        return 1

    def score(self, outputs: Tensor) -> Tensor:
        """[examples]. The similarity lies in the outputs as output `similarity` left it."""
        x = outputs[:, 0]
        if not self.similarity:
            return x
        if self.task.kind.has_classes:
            return 2 * torch.sigmoid(x) - 1
        return 2 * (x - self.low) / (self.high - self.low) - 1

    def predict(self, outputs: Tensor) -> Tensor:
        if not self.task.kind.has_classes:
            return super().predict(outputs)
        yes = torch.sigmoid(outputs[:, 0])
        return torch.stack([1 - yes, yes], dim=-1)
