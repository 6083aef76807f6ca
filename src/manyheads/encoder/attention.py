"""Attention over packed tokens: every token sees its own sequence and nothing else. One function per device."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from manyheads.encoder.dropout import dropout
from manyheads.tokens import PackedTokens


def attend(query: Tensor | None, key_value: Tensor, tokens: PackedTokens, heads: int, drop: float) -> Tensor:
    """softmax(Q·Kᵀ/√d)·V within each sequence.

    `key_value` is [tokens, 3·width] holding Q, K and V when `query` is None; for the last layer, of which only
    `tokens.kept` rows are wanted, `query` is [kept rows, width] and `key_value` [tokens, 2·width].
    Variable-length CUDA kernels would go here; until they can be tested, CUDA runs the same groups.
    """
    return _attend_by_length(query, key_value, tokens, heads, drop)


def _attend_by_length(query: Tensor | None, key_value: Tensor, tokens: PackedTokens, heads: int, drop: float) -> Tensor:
    """Sequences of equal length lie side by side: each run of them is one batched product, with no mask."""
    groups = tokens.groups
    # split, not slices: the backward of a slice fills a zero tensor as large as its source, for every group
    pieces = key_value.split([group.count * group.length for group in groups])
    asked = [None] * len(groups) if query is None else query.split([group.count * group.kept for group in groups])
    results = []
    for group, piece, question in zip(groups, pieces, asked, strict=True):
        parts = 3 if question is None else 2
        split = piece.view(group.count, group.length, parts, heads, -1).permute(2, 0, 3, 1, 4)
        k, v = split[-2], split[-1]  # [count, heads, length, d]
        q = split[0] if question is None else question.view(group.count, group.kept, heads, -1).transpose(1, 2)
        if drop:
            weights = torch.softmax(q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1])), dim=-1)
            seen = dropout(weights, drop) @ v
        else:
            seen = F.scaled_dot_product_attention(q, k, v)
        results.append(seen.transpose(1, 2).reshape(-1, heads * q.shape[-1]))
    return torch.cat(results)
