"""Gradient caching: a batch that is compared as a whole, in memory for a part of it.

Every chunk is encoded without keeping what its gradient needs; the loss compares the vectors v of all chunks, and gives
∂L/∂v. Then each chunk is encoded once more, with the dropout masks that it had, and sends its share of ∂L/∂v back
through the encoder: Σ_chunks (∂v/∂θ)ᵀ ∂L/∂v = ∂L/∂θ, the gradient of the whole batch in one pass. It takes a second
forward, and what one chunk needs of memory. (Gao et al., 2021.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from manyheads.model.multitask import Inputs
from manyheads.tokens.budget import split_by_tokens
from manyheads.tokens.packing import Sequence


def encode_in_chunks(encode: Callable[[Inputs], Tensor], inputs: Inputs, tokens_per_pass: int) -> Tensor:
    """What `encode` gives of all examples, of some at a time; their activations are computed again where a gradient
    asks for them, after torch's generators went back to where they stood."""
    vectors: list[Tensor] = []
    for chunk in split_by_tokens(inputs, input_tokens, tokens_per_pass):
        vectors.append(cast(Tensor, checkpoint(encode, chunk, use_reentrant=False)))
    return torch.cat(vectors)


def input_tokens(sequences: list[Sequence]) -> int:
    """Tokens of one example; states that are kept count as such."""
    return sum(len(sequence.ids) if sequence.states is None else len(sequence.states) for sequence in sequences)
