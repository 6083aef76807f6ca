"""The matrix-product floor: the time that the products of some work take by themselves, at their own shapes.

Nothing but products, into memory that is already there: no trainer can be faster with these kernels. Two floors of
the same batches: of the *whole* model, as transformers computes it (without padding, though), and of what *must* be
done, where of the last layer only those rows count that heads read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from manyheads.encoder.bert import Bert
from manyheads.tokens.packing import PackedTokens

Product = tuple[int, int, int]  # [a, b] · [b, c]


def products(encoder: Bert, tokens: PackedTokens, whole: bool, backward: bool) -> list[Product]:
    """The products of the linear layers of one pass; attention's own products, a few per cent, are left out."""
    width, inner, count = encoder.width, encoder.config.intermediate_size, len(tokens)
    kept = count if whole or tokens.kept_rows is None else len(tokens.kept_rows)
    full = [(count, width, 3 * width), (count, width, width), (count, width, inner), (count, inner, width)]
    last = [(count, width, 2 * width), (kept, width, width)]  # keys and values of all, queries of what is kept
    last += [(kept, width, width), (kept, width, inner), (kept, inner, width)]
    found = full * (encoder.depth - 1) + (full if kept == count else last)
    if not backward:
        return found
    # of y = x·w the gradients are dy·wᵀ and xᵀ·dy
    return [one for a, b, c in found for one in ((a, b, c), (a, c, b), (b, a, c))]


def run(some: Sequence[Product]) -> float:
    """Seconds of these products."""
    operands = {(a, b, c): (torch.randn(a, b), torch.randn(b, c), torch.zeros(a, c)) for a, b, c in set(some)}
    began = time.perf_counter()
    for shape in some:
        left, right, out = operands[shape]
        torch.mm(left, right, out=out)
    return time.perf_counter() - began


def operations(some: Sequence[Product]) -> int:
    return sum(2 * a * b * c for a, b, c in some)
