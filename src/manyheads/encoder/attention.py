"""Attention over packed tokens: every token sees its own sequence and nothing else. One function per device."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from manyheads.encoder.dropout import dropout
from manyheads.encoder.layout import Gather, lay_out
from manyheads.tokens import PackedTokens


def attend(query: Tensor | None, key_value: Tensor, tokens: PackedTokens, heads: int, drop: float) -> Tensor:
    """softmax(Q·Kᵀ/√d)·V within each sequence.

    `key_value` is [tokens, 3·width] holding Q, K and V when `query` is None; for the last layer, of which only
    `tokens.kept` rows are wanted, `query` is [kept rows, width] and `key_value` [tokens, 2·width].
    Variable-length CUDA kernels would go here; until they can be tested, CUDA runs the same blocks.
    """
    return _attend_by_blocks(query, key_value, tokens, heads, drop)


def _attend_by_blocks(query: Tensor | None, key_value: Tensor, tokens: PackedTokens, heads: int, drop: float) -> Tensor:
    """Sequences of like length are one batched product; `encoder/layout.py` says how they are brought together."""
    parts = 3 if query is None else 2
    size = key_value.shape[1] // (parts * heads)  # of a head
    layout = lay_out(tokens.groups, heads, query is not None, key_value.device)
    rows = [one.count * heads * one.length * parts for one in layout.blocks]
    pieces = Gather.apply(key_value.reshape(-1, size), layout.keys).split(rows)
    asked: list[Tensor | None] = [None] * len(pieces)
    if query is not None and layout.queries is not None:
        counts = [one.count * heads * one.asked for one in layout.blocks]
        asked = list(Gather.apply(query.reshape(-1, size), layout.queries).split(counts))
    results = []
    for block, piece, question in zip(layout.blocks, pieces, asked, strict=True):
        shared = piece.view(parts, block.count, heads, block.length, size)
        q = shared[0] if question is None else question.view(block.count, heads, block.asked, size)
        k, v = shared[-2], shared[-1]
        mask = None if block.mask is None else block.mask[:, None].to(q.dtype)
        if drop:
            scores = q @ k.transpose(-1, -2) * (1 / math.sqrt(size))
            weights = torch.softmax(scores if mask is None else scores + mask, dim=-1)
            seen = dropout(weights, drop) @ v
        else:
            seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        results.append(seen.reshape(-1, size))
    return Gather.apply(torch.cat(results), layout.results).view(-1, heads * size)
