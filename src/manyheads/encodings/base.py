"""What an encoding and a pooling must offer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.tokens import Frame, Keep

if TYPE_CHECKING:
    from manyheads.tasks import Task

Ids = np.ndarray  # token ids of one sentence, without special tokens


class Encoding(nn.Module):
    """How a task's texts become encoder inputs, and how the pooled vectors become one feature vector per example."""

    def unfit(self, task: Task) -> str | None:
        """Why this encoding cannot serve the task, or None."""
        raise NotImplementedError

    def inputs(self, texts: tuple[Ids, ...], frame: Frame, max_length: int) -> list[tuple[Ids, Ids]]:
        """(ids, segments) of each encoder input of one example."""
        raise NotImplementedError

    def untruncated_length(self, lengths: tuple[np.ndarray, ...], frame: Frame) -> np.ndarray:
        """[examples] length of the longest input before truncation, to count what will be cut."""
        raise NotImplementedError

    def features(self, width: int) -> int:
        """Length of a feature vector, from the width of a pooled one."""
        raise NotImplementedError

    def forward(self, pooled: Tensor) -> Tensor:
        """Pooled vectors [inputs, width], an example's side by side → features [examples, features]."""
        raise NotImplementedError


def token_rows(starts: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """All rows of some inputs, one input after the other, and for each row which input it is of."""
    inputs = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
    before = torch.cumsum(lengths, dim=0) - lengths  # rows of the inputs before each
    return starts[inputs] + torch.arange(len(inputs), device=lengths.device) - before[inputs], inputs


class Pooling(nn.Module):
    """How the token states of one input become one vector. Built with the encoder whose states it reads."""

    keep: Keep  # which states it reads; the encoder need not compute the others

    def forward(self, states: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        """States [rows, width]; first row and number of rows of each input → [inputs, width]."""
        raise NotImplementedError
