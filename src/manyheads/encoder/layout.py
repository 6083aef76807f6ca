"""How packed sequences are laid out for attention's batched products.

A batch of 48 sequences has some thirty different lengths. A product for each length is thirty times as many calls as
are needed, and calls on little matrices cost more than their arithmetic. So sequences of like length share a block,
padded to the longest of them with a mask; a run of many equal ones needs neither. Padding exists only between here and
the end of attention: linear layers, norms and activations never see it.

One gather brings Q, K and V of all tokens into all blocks, in the order in which products read them, and one gather
brings the results back. Both ways every real row is taken once, so that the gradient of a gather is a gather as well.
"""

from __future__ import annotations

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
    asked: int  # queries of each: as many as its length, or one
    mask: Tensor | None  # [count, 1, length]: −∞ past a sequence's end; None where all are equally long


@dataclass(frozen=True)
class Moves:
    """Which rows to take, and which to take of the gradient to bring it back."""

    rows: Tensor
    back: Tensor
    empty: Tensor | None  # rows of the gradient that belong to no token


@dataclass(frozen=True)
class Layout:
    """Rows are vectors of one head: [tokens, parts, heads] → [blocks: parts, sequences, heads, places] and back."""

    blocks: tuple[Block, ...]
    keys: Moves
    queries: Moves | None  # None: they are a part of `keys`
    results: Moves


@lru_cache(maxsize=4)  # a pass has two layouts, one for its last layer
def lay_out(groups: tuple[Group, ...], heads: int, apart: bool, device: torch.device) -> Layout:
    """`apart`: queries stand by themselves, as in the last layer, of which only some rows are wanted."""
    lengths = np.repeat([one.length for one in groups], [one.count for one in groups])
    asked = np.repeat([one.kept for one in groups], [one.count for one in groups]) if apart else lengths
    spans = _spans(groups, apart)
    blocks = []
    for first, last in spans:
        count, length = last - first, int(lengths[first:last].max())
        short = lengths[first:last, None, None] <= np.arange(length)
        mask = torch.from_numpy(np.where(short, -np.inf, 0.0).astype(np.float32)).to(device) if short.any() else None
        blocks.append(Block(count, length, int(asked[first:last].max()), mask))
    keys, _ = _moves(spans, lengths, 2 if apart else 3, heads)
    queries, results = _moves(spans, asked, 1, heads)
    return Layout(
        tuple(blocks),
        _on(device, *keys),
        _on(device, *queries) if apart else None,
        _on(device, *results),
    )


def _spans(groups: tuple[Group, ...], apart: bool) -> list[tuple[int, int]]:
    """First and last + 1 of the sequences of each block. Groups are in order of length."""
    found: list[tuple[int, int]] = []
    before: Group | None = None
    at = 0
    for one in groups:
        alone = one.count >= MANY
        joins = (
            before is not None
            and not alone
            and before.count < MANY
            and -(-one.length // LIKE) == -(-before.length // LIKE)
            and not (apart and (one.kept > 1) != (before.kept > 1))
        )
        first = found.pop()[0] if joins else at
        at += one.count
        found.append((first, at))
        before = one
    return found


Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def _moves(spans: list[tuple[int, int]], lengths: np.ndarray, parts: int, heads: int) -> tuple[Rows, Rows]:
    """Rows of [tokens, parts, heads] in the order of blocks; and for one part the way back."""
    starts = np.cumsum(lengths) - lengths
    order, real = [], []
    for first, last in spans:
        own = lengths[first:last, None]
        places = np.arange(own.max())
        token = starts[first:last, None] + np.minimum(places, own - 1)  # an empty place repeats the last token
        row = np.arange(parts)[:, None, None, None] * heads + np.arange(heads)[:, None]
        row = token[:, None, :] * (parts * heads) + row  # [parts, sequences, heads, places]
        order.append(row.reshape(-1))
        real.append(np.broadcast_to((places < own)[:, None, :], row.shape).reshape(-1))
    there, is_real = np.concatenate(order), np.concatenate(real)
    back = np.empty(int(lengths.sum()) * parts * heads, dtype=np.int64)
    back[there[is_real]] = np.flatnonzero(is_real)
    return (there, back, np.empty(0, dtype=np.int64)), (back, there, np.flatnonzero(~is_real))


def _on(device: torch.device, rows: np.ndarray, back: np.ndarray, empty: np.ndarray) -> Moves:
    there, again = (torch.from_numpy(one.astype(np.int32)).to(device) for one in (rows, back))
    return Moves(there, again, torch.from_numpy(empty).to(device) if len(empty) else None)


class Gather(torch.autograd.Function):
    """values[rows], whose gradient is gathered too: no row is added to another."""

    @staticmethod
    def forward(context: Any, values: Tensor, moves: Moves) -> Tensor:
        context.moves = moves
        return values.index_select(0, moves.rows)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        moves: Moves = context.moves
        found = gradient.index_select(0, moves.back)
        return (found if moves.empty is None else found.index_fill_(0, moves.empty, 0.0)), None
