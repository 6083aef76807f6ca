"""What all bi-encoders share: each sentence of a pair is an input of its own, both sides in one packed pass."""

from __future__ import annotations

import torch
from torch import Tensor

from manyheads.parts.encodings.base import Encoding
from manyheads.tokens.framing import SingleFrame

SMALLEST_NORM = 1e-8  # guards the division where a vector is zero


class PairOfInputs(Encoding):
    """[CLS] s1 [SEP] and [CLS] s2 [SEP], each cut to the encoder's length on its own."""

    texts = 2
    frames = (SingleFrame(0), SingleFrame(1))


def cosine(u: Tensor, v: Tensor) -> Tensor:
    """u·v / max(‖u‖‖v‖, ε), one value per pair [examples, 1]."""
    norms = torch.linalg.vector_norm(u, dim=-1) * torch.linalg.vector_norm(v, dim=-1)
    return ((u * v).sum(dim=-1) / norms.clamp(min=SMALLEST_NORM))[:, None]
