"""What all bi-encoders share: each sentence of a pair is an input of its own, both sides in one packed pass."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from manyheads.parts.encodings.base import Encoding, Ids
from manyheads.tokens.tokenizer import SpecialTokens

SMALLEST_NORM = 1e-8  # guards the division where a vector is zero


class PairOfInputs(Encoding):
    """[CLS] s1 [SEP] and [CLS] s2 [SEP], each cut to the encoder's length on its own."""

    texts = 2

    def inputs(self, texts: tuple[Ids, ...], special_tokens: SpecialTokens, max_length: int) -> list[tuple[Ids, Ids]]:
        return [special_tokens.single(text, max_length) for text in texts]

    def untruncated_length(self, lengths: tuple[np.ndarray, ...], special_tokens: SpecialTokens) -> np.ndarray:
        return np.maximum(*lengths) + special_tokens.around_single


def cosine(u: Tensor, v: Tensor) -> Tensor:
    """u·v / max(‖u‖‖v‖, ε), one value per pair [examples, 1]."""
    norms = torch.linalg.vector_norm(u, dim=-1) * torch.linalg.vector_norm(v, dim=-1)
    return ((u * v).sum(dim=-1) / norms.clamp(min=SMALLEST_NORM))[:, None]
