"""One sentence, one input."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from manyheads.parts.encodings.base import Encoding, Ids
from manyheads.registry import register
from manyheads.tokens.tokenizer import Frame


@register("encodings", "single", paper="all")
class Single(Encoding):
    """[CLS] sentence [SEP]: for tasks with one text column."""

    texts = 1

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = width

    def inputs(self, texts: tuple[Ids, ...], frame: Frame, max_length: int) -> list[tuple[Ids, Ids]]:
        ids = np.concatenate([frame.start, texts[0][: max_length - frame.around_one], frame.end])
        return [(ids, np.zeros_like(ids))]

    def untruncated_length(self, lengths: tuple[np.ndarray, ...], frame: Frame) -> np.ndarray:
        return lengths[0] + frame.around_one

    def forward(self, pooled: Tensor) -> Tensor:
        return pooled
