"""A layer's second half where no gradient is wanted: nothing is kept for later, so what is written can be reused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from manyheads.encoder import onednn

if TYPE_CHECKING:
    from manyheads.encoder.bert import Layer

PIECE = 1024  # rows of the feed-forward part at a time: its inner states stay in the CPU's cache


def may_run_in_place(layer: Layer, x: Tensor) -> bool:
    """On a CPU, where memory is the limit; not under autocast, which does not know results that are given; nor where
    parts do more than their product, or something listens to them."""
    return (
        x.device.type == "cpu"
        and not (torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"))
        and not (layer.training or layer.dropout.training)
        and all(is_plain(part) for part in (layer.attention_out, layer.up, layer.down))
    )


def is_plain(part: nn.Module) -> bool:
    """Whether it is its product and nothing else: no other part in its place, and nothing that listens to it."""
    return type(part) is nn.Linear and not (part._forward_hooks or part._forward_pre_hooks)


def finish_in_place(layer: Layer, x: Tensor, attended: Tensor) -> Tensor:
    """norm(a + W₂·gelu(W₁·a)) with a = norm(x + O·attended): residual and bias are what the products are added to.

    Written plainly, every product is first filled with its bias, then read once more to add the residual, and the
    inner states, four times as wide as the rest, are written to memory that the system has to clear.
    """
    out, up, down = layer.attention_out, layer.up, layer.down
    if onednn.suits(x):
        return _finish_by_onednn(layer, x, attended)
    a = layer.attention_norm((x + out.bias).addmm_(attended, out.weight.T))
    result = a + down.bias
    inner = a.new_empty(min(PIECE, len(a)), up.out_features)
    for rows, piece in zip(a.split(PIECE), result.split(PIECE), strict=True):
        states = inner[: len(rows)]
        torch.addmm(up.bias, rows, up.weight.T, out=states)
        torch.ops.aten.gelu_(states)
        piece.addmm_(states, down.weight.T)
    return layer.norm(result)


def _finish_by_onednn(layer: Layer, x: Tensor, attended: Tensor) -> Tensor:
    """The same; bias and gelu are parts of a product, whose result is its own."""
    out, up, down = layer.attention_out, layer.up, layer.down
    a = layer.attention_norm(onednn.linear(attended, out.weight, out.bias).add_(x))
    result = a.clone()
    for rows, piece in zip(a.split(PIECE), result.split(PIECE), strict=True):
        states = onednn.linear(rows, up.weight, up.bias, "gelu")
        piece.add_(onednn.linear(states, down.weight, down.bias))
    return layer.norm(result)
