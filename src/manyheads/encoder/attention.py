"""Attention over packed tokens: every token sees its own sequence and nothing else. One function per device."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from manyheads.encoder.dropout import dropout_mask
from manyheads.encoder.layout import Block, Gather, Layout, lay_out
from manyheads.tokens.packing import PackedTokens


def attend(query: Tensor | None, key_value: Tensor, tokens: PackedTokens, heads: int, drop: float) -> Tensor:
    """softmax(Q·Kᵀ/√d)·V within each sequence.

    `key_value` is [tokens, 3·width] holding Q, K and V when `query` is None; for the last layer, of which only
    `tokens.kept_rows` rows are wanted, `query` is [kept rows, width] and `key_value` [tokens, 2·width].
    Variable-length CUDA kernels would go here; until they can be tested, CUDA runs the same blocks.
    """
    parts = 3 if query is None else 2
    size = key_value.shape[1] // (parts * heads)  # of a head
    layout = lay_out(tokens.groups, heads, query is not None, key_value.device)
    rows = Gather.apply(key_value.reshape(-1, size), layout.keys)
    queries = None
    if query is not None:
        queries = Gather.apply(query.reshape(-1, size), layout.queries)
    attended = AttentionInBlocks.apply(queries, rows, layout, heads, drop)
    return Gather.apply(attended, layout.results).view(-1, heads * size)


class AttentionInBlocks(torch.autograd.Function):
    """Sequences of like length are one batched product; `encoder/layout.py` says how they are brought together.

        S = Q·Kᵀ/√d + mask      P = softmax(S)      D = P ∘ m (dropout)      O = D·V
        dV = Dᵀ·dO      dP = (dO·Vᵀ) ∘ m      dS = P ∘ (dP − Σ dP ∘ P)      dQ = dS·K/√d      dK = dSᵀ·Q/√d

    Written out, because every product lands in its place here: autograd would fill a gradient with zeros for every
    slice of a block, add them up and join the blocks, which is a twentieth of a training step.
    """

    @staticmethod
    def forward(context: Any, queries: Tensor | None, rows: Tensor, layout: Layout, heads: int, drop: float) -> Tensor:
        """Rows of blocks [parts, sequences, heads, positions] → [blocks: sequences, heads, queries]."""
        result_rows = sum(block.count * heads * block.queries for block in layout.blocks)
        results = rows.new_empty(result_rows, rows.shape[1])
        masks = _masks(layout, heads, rows, drop)
        saved: list[Tensor | None] = []
        with torch.autocast(rows.device.type, enabled=False):
            for number, (q, k, v, out) in enumerate(_blocks(layout, heads, queries, rows, results)):
                weights = torch.softmax(_scores(q, k, layout.blocks[number], heads), dim=-1)
                mask, dropped = None, weights
                if drop:
                    mask = masks[number].view(weights.shape)
                    dropped = weights * mask
                torch.bmm(dropped, v, out=out)
                saved += [weights, mask, dropped]
        context.layout, context.heads = layout, heads
        context.save_for_backward(queries, rows, *saved)
        return results

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, None, None, None]:
        queries, rows, *saved = context.saved_tensors
        layout, heads = context.layout, context.heads
        scale = 1 / math.sqrt(rows.shape[1])
        to_rows = torch.empty_like(rows)
        to_queries = None if queries is None else torch.empty_like(queries)
        inputs = _blocks(layout, heads, queries, rows, gradient)
        gradients = _blocks(layout, heads, to_queries, to_rows, gradient)
        with torch.autocast(rows.device.type, enabled=False):
            for number, ((q, k, v, out), (dq, dk, dv, _)) in enumerate(zip(inputs, gradients, strict=True)):
                weights, mask, dropped = saved[3 * number : 3 * number + 3]
                torch.bmm(dropped.mT, out, out=dv)
                to_weights = torch.bmm(out, v.mT)
                if mask is not None:
                    to_weights = to_weights.mul_(mask)
                to_scores = torch._softmax_backward_data(to_weights, weights, -1, weights.dtype)
                torch.baddbmm(dq, to_scores, k, beta=0, alpha=scale, out=dq)
                torch.baddbmm(dk, to_scores.mT, q, beta=0, alpha=scale, out=dk)
        return to_queries, to_rows, None, None, None


def _blocks(
    layout: Layout, heads: int, queries: Tensor | None, rows: Tensor, results: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Q, K, V and the result of every block, as views: [sequences · heads, positions, size]."""
    size = rows.shape[1]
    parts = 3 if queries is None else 2
    first_row = first_result = 0
    for block in layout.blocks:
        batch = block.count * heads
        end_row = first_row + parts * batch * block.length
        end_result = first_result + batch * block.queries
        *query, k, v = rows[first_row:end_row].view(parts, batch, block.length, size).unbind()
        if queries is not None:
            query = [queries[first_result:end_result].view(batch, block.queries, size)]
        yield query[0], k, v, results[first_result:end_result].view(batch, block.queries, size)
        first_row, first_result = end_row, end_result


def _masks(layout: Layout, heads: int, rows: Tensor, drop: float) -> Sequence[Tensor]:
    """The dropout masks of all blocks, drawn at once."""
    if not drop:
        return ()
    counts = [block.count * heads * block.queries * block.length for block in layout.blocks]
    return dropout_mask(rows.new_empty(sum(counts)), drop).split(counts)


def _scores(q: Tensor, k: Tensor, block: Block, heads: int) -> Tensor:
    """Q·Kᵀ/√d, and −∞ where a sequence has no token: one call for product, scale and mask."""
    scale = 1 / math.sqrt(q.shape[-1])
    if block.mask is None:
        empty = q.new_empty(())
        return torch.baddbmm(empty, q, k.mT, beta=0, alpha=scale)
    mask = block.mask[:, None].to(q.dtype).expand(-1, heads, -1, -1).reshape(len(q), 1, -1)
    return torch.baddbmm(mask, q, k.mT, alpha=scale)
