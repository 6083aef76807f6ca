"""What an encoding and a pooling must offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.encoder import Encoder
from manyheads.tokens.packing import Keep
from manyheads.tokens.tokenizer import Frame

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

Ids = np.ndarray  # token ids of one sentence, without special tokens


class Encoding(nn.Module):
    """How a task's texts become encoder inputs, and how the pooled vectors become one feature vector per example.

    Built with the width of a pooled vector.
    """

    texts: int  # how many text columns it takes
    gives: Literal["features", "cosine", "similarity"] = "features"  # the last two are predictions, from 0 to 1
    pooling = "head-pooler"  # the pooling it has where a recipe names none
    features: int  # length of a feature vector
    group: str | None = None  # tasks with the same group share `layer`

    @property
    def layer(self) -> nn.Module:
        """The layer that a group of tasks shares."""
        raise NotImplementedError

    def share(self, layer: nn.Module) -> None:
        """Use the layer that another task of the group made, or say in a ValueError why not."""
        raise NotImplementedError

    @classmethod
    def unfit(cls, task: Task) -> str | None:
        """Why this encoding cannot serve the task, or None."""
        if cls.texts == len(task.columns.text):
            return None
        takes, has, other = (
            ("one text column", "two", "cross") if cls.texts == 1 else ("two text columns", "one", "single")
        )
        return f"'{task.encoding.name}' takes {takes}, this task has {has}; use '{other}'."

    def inputs(self, texts: tuple[Ids, ...], frame: Frame, max_length: int) -> list[tuple[Ids, Ids]]:
        """(ids, segments) of each encoder input of one example."""
        raise NotImplementedError

    def untruncated_length(self, lengths: tuple[np.ndarray, ...], frame: Frame) -> np.ndarray:
        """[examples] length of the longest input before truncation, to count what will be cut."""
        raise NotImplementedError

    def forward(self, pooled: Tensor) -> Tensor:
        """Pooled vectors [inputs, width], an example's side by side → features [examples, features]."""
        raise NotImplementedError


class Pooling(nn.Module):
    """How the token states of one input become one vector. Built with the encoder whose states it reads.

    `layer`: whose states it reads, counted from 1; 0 is the embeddings, negative counts from the top; by default the
    last. If no task reads the upper layers they are not run.
    """

    keep: Keep  # which states it reads; the encoder need not compute the others
    width: int  # of the vector

    def __init__(self, encoder: Encoder, *, layer: int = -1) -> None:
        super().__init__()
        depth = encoder.depth
        if not -depth - 1 <= layer <= depth:
            raise ValueError(
                f"this encoder has {depth} layers: 'layer' is from 0 to {depth}, or negative, found {layer}"
            )
        self.layer = layer if layer >= 0 else depth + 1 + layer
        self.width = encoder.width

    def forward(self, states: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        """States [rows, width]; first row and number of rows of each input → [inputs, width]."""
        raise NotImplementedError


def token_rows(starts: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """All rows of some inputs, one input after the other, and for each row which input it is of."""
    inputs = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
    before = torch.cumsum(lengths, dim=0) - lengths  # rows of the inputs before each
    return starts[inputs] + torch.arange(len(inputs), device=lengths.device) - before[inputs], inputs
