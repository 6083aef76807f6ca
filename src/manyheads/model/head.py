"""What one task owns, or shares with tasks that say `head_of`: pooling, encoding, head, output and loss."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from manyheads.encoder import Encoder
from manyheads.parts.encodings import Encoding
from manyheads.parts.losses import Loss
from manyheads.parts.pooling import Pooling
from manyheads.tasks.task import Task
from manyheads.tokens.packing import Words


class IncompatiblePart(ValueError):
    """A part that does not fit this encoder, or the other tasks of its group."""

    def __init__(self, task: str, part: str, reason: str) -> None:
        super().__init__(reason)
        self.task, self.part = task, part


class TaskHead(nn.Module):
    """The parts of one task, built to fit each other and the encoder."""

    def __init__(self, task: Task, encoder: Encoder) -> None:
        super().__init__()
        self.pooling: Pooling = _build(task, "pooling", "pooling", encoder)
        self.encoding: Encoding = _build(task, "encoding", "encodings", self.pooling.width)
        self.loss: Loss = _build(task, "loss", "losses", task)
        self.head: nn.Module = _build(task, "head", "heads", self.encoding.features, self.loss.outputs)
        try:
            self.loss.check_width(self.encoding.features if task.head.name == "none" else self.loss.outputs)
        except ValueError as fault:
            raise IncompatiblePart(task.name, "loss", str(fault)) from None
        self.output: nn.Module = _build(task, "output", "outputs", task)

    def forward(self, states: dict[int, Tensor], starts: Tensor, lengths: Tensor, words: Words | None = None) -> Tensor:
        """The task's share of the encoder's states → outputs [examples, outputs], or [words, outputs]."""
        return self.output(self.head(self.features(states, starts, lengths, words)))

    def features(
        self, states: dict[int, Tensor], starts: Tensor, lengths: Tensor, words: Words | None = None
    ) -> Tensor:
        """The same share → what the head reads [examples, features], or [words, features]."""
        where = (starts, lengths, words) if self.pooling.reads_words else (starts, lengths)
        pooled = self.pooling(states[self.pooling.layer], *where)
        features: Tensor = self.encoding(pooled)
        return features

    @property
    def linear_map(self) -> nn.Linear | None:
        """The only layer that learns here, where it is a linear one on features that nothing else changes."""
        linear: nn.Linear | None = getattr(self.head, "linear_map", None)
        fixed_parts = (self.pooling, self.encoding, self.output)
        learns_elsewhere = any(True for part in fixed_parts for _ in part.parameters())
        per_text = self.encoding.gives == "vectors"  # a map of vectors, not to predictions
        if linear is None or learns_elsewhere or per_text or self.encoding.group is not None:
            return None
        return linear


def _build(task: Task, part: str, family: str, *arguments: Any) -> Any:
    try:
        return getattr(task, part).build(family, *arguments)
    except ValueError as fault:
        raise IncompatiblePart(task.name, part, str(fault)) from None
