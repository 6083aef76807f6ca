"""What an encoding must offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from torch import Tensor, nn

from manyheads.tokens.framing import Frame, Ids
from manyheads.tokens.tokenizer import SpecialTokens

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


class Encoding(nn.Module):
    """How a task's texts become encoder inputs, and how the pooled vectors become one feature vector per example.

    Built with the width of a pooled vector.
    """

    texts: int  # how many text columns it takes
    frames: tuple[Frame, ...] = ()  # what each encoder input of an example holds
    single_texts = slice(None)  # which of an example's inputs hold one text each
    # cosine and similarity are predictions, from 0 to 1; vectors are one for each text
    gives: Literal["features", "cosine", "similarity", "vectors"] = "features"
    joins_texts = False  # whether a pair is one input, in which its second text stands last
    symmetric = False  # whether a pair gives the same in both orders
    pooling = "trained"  # the pooling it has where a recipe names none
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
    def why_incompatible(cls, task: Task) -> str | None:
        """Why this encoding cannot serve the task, or None."""
        if cls.texts == len(task.columns.text):
            return None
        takes, has, other = (
            ("one text column", "two", "cross") if cls.texts == 1 else ("two text columns", "one", "single")
        )
        return f"'{task.encoding.name}' takes {takes}, this task has {has}; use '{other}'."

    def inputs(self, texts: tuple[Ids, ...], special_tokens: SpecialTokens, max_length: int) -> list[tuple[Ids, Ids]]:
        """(ids, segments) of each encoder input of one example."""
        return [frame.apply(texts, special_tokens, max_length) for frame in self.frames]

    def untruncated_length(self, lengths: tuple[np.ndarray, ...], special_tokens: SpecialTokens) -> np.ndarray:
        """[examples] length of the longest input before truncation, to count what will be cut."""
        framed = [frame.untruncated_length(lengths, special_tokens) for frame in self.frames]
        longest: np.ndarray = np.maximum.reduce(framed)
        return longest

    def forward(self, pooled: Tensor) -> Tensor:
        """Pooled vectors [inputs, width], an example's side by side → features [examples, features]."""
        raise NotImplementedError
