"""How packed sequences are laid out for attention's batched products.

A batch of 48 sequences has some thirty different lengths. A product for each length is thirty times as many calls as
are needed, and calls on little matrices cost more than their arithmetic. So sequences of like length share a block,
padded to the longest of them with a mask; a run of many equal ones needs neither. Padding exists only between here and
the end of attention: linear layers, norms and activations never see it.

One gather brings Q, K and V of all tokens into all blocks, in the order in which products read them, and one gather
brings the results back. Both ways every real row is taken once, so that the gradient of a gather is a gather as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from manyheads.tokens.packing import Group

LIKE = 8  # lengths up to the same multiple of this share a block
MANY = 16  # sequences of one length have a block of their own


@dataclass(frozen=True)
class Block:
    """Sequences of like length."""

    count: int
    length: int  # of the longest
    queries: int  # of each: as many as its length, or one
    mask: Tensor | None  # [count, 1, length]: −∞ past a sequence's end; None where all are equally long


@dataclass(frozen=True)
class Moves:
    """Which rows to take, and which to take of the gradient to bring it back."""

    take: Tensor
    take_back: Tensor
    empty: Tensor | None  # rows of the gradient that belong to no token


@dataclass(frozen=True)
class Layout:
    """Rows are vectors of one head: [tokens, parts, heads] → [blocks: parts, sequences, heads, positions] and back."""

    blocks: tuple[Block, ...]
    keys: Moves
    queries: Moves | None  # None: they are a part of `keys`
    results: Moves


@lru_cache(maxsize=4)  # a pass has two layouts, one for its last layer
def lay_out(groups: tuple[Group, ...], heads: int, separate_queries: bool, device: torch.device) -> Layout:
    """`separate_queries`: not beside their keys, as in the last layer, of which only some rows are wanted."""
    counts = [group.count for group in groups]
    lengths = np.repeat([group.length for group in groups], counts)
    queries = lengths
    if separate_queries:
        queries = np.repeat([group.kept_length for group in groups], counts)
    spans = _spans(groups, separate_queries)
    blocks = tuple(_block(lengths[first:end], queries[first:end], device) for first, end in spans)
    key_moves, _ = _moves(spans, lengths, 2 if separate_queries else 3, heads)
    query_moves, result_moves = _moves(spans, queries, 1, heads)
    return Layout(
        blocks,
        keys=_on(device, *key_moves),
        queries=_on(device, *query_moves) if separate_queries else None,
        results=_on(device, *result_moves),
    )


def _block(lengths: np.ndarray, queries: np.ndarray, device: torch.device) -> Block:
    """The block of sequences with these lengths and numbers of queries."""
    longest = int(lengths.max())
    past_end = lengths[:, None, None] <= np.arange(longest)
    mask = None
    if past_end.any():
        mask = torch.from_numpy(np.where(past_end, -np.inf, 0.0).astype(np.float32)).to(device)
    return Block(len(lengths), longest, int(queries.max()), mask)


def _spans(groups: tuple[Group, ...], separate_queries: bool) -> list[tuple[int, int]]:
    """First and last + 1 of the sequences of each block. Groups are in order of length."""
    spans: list[tuple[int, int]] = []
    before: Group | None = None
    end = 0
    for group in groups:
        first = end
        if before is not None and _share_block(before, group, separate_queries):
            first = spans.pop()[0]
        end += group.count
        spans.append((first, end))
        before = group
    return spans


def _share_block(before: Group, group: Group, separate_queries: bool) -> bool:
    """Neither is large enough for a block of its own, their lengths are alike, and so are their queries."""
    if max(before.count, group.count) >= MANY:
        return False
    if separate_queries and (group.kept_length > 1) != (before.kept_length > 1):
        return False
    return math.ceil(group.length / LIKE) == math.ceil(before.length / LIKE)


Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # to take, to take back, empty


def _moves(spans: list[tuple[int, int]], lengths: np.ndarray, parts: int, heads: int) -> tuple[Rows, Rows]:
    """Rows of [tokens, parts, heads] in the order of blocks; and for one part the way back."""
    starts = np.cumsum(lengths) - lengths
    order, real = [], []
    for first, end in spans:
        block_lengths = lengths[first:end, None]
        positions = np.arange(block_lengths.max())
        # an empty position repeats the last token
        token = starts[first:end, None] + np.minimum(positions, block_lengths - 1)
        row = np.arange(parts)[:, None, None, None] * heads + np.arange(heads)[:, None]
        row = token[:, None, :] * (parts * heads) + row  # [parts, sequences, heads, positions]
        order.append(row.reshape(-1))
        real.append(np.broadcast_to((positions < block_lengths)[:, None, :], row.shape).reshape(-1))
    into_blocks, is_real = np.concatenate(order), np.concatenate(real)
    out_of_blocks = np.empty(int(lengths.sum()) * parts * heads, dtype=np.int64)
    out_of_blocks[into_blocks[is_real]] = np.flatnonzero(is_real)
    no_rows = np.empty(0, dtype=np.int64)
    return (into_blocks, out_of_blocks, no_rows), (out_of_blocks, into_blocks, np.flatnonzero(~is_real))


def _on(device: torch.device, take: np.ndarray, take_back: np.ndarray, empty: np.ndarray) -> Moves:
    return Moves(
        torch.from_numpy(take.astype(np.int32)).to(device),
        torch.from_numpy(take_back.astype(np.int32)).to(device),
        torch.from_numpy(empty).to(device) if len(empty) else None,
    )


class Gather(torch.autograd.Function):
    """values[rows], whose gradient is gathered too: no row is added to another."""

    @staticmethod
    def forward(context: Any, values: Tensor, moves: Moves) -> Tensor:
        context.moves = moves
        return values.index_select(0, moves.take)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        moves: Moves = context.moves
        to_values = gradient.index_select(0, moves.take_back)
        if moves.empty is not None:
            to_values.index_fill_(0, moves.empty, 0.0)
        return to_values, None
