"""Products in bfloat16 on a CPU: operands are rounded, sums are float32, and all else of a layer stays float32.

    product        y = bf16(x)·bf16(W)ᵀ + bf16(b)
    feed-forward   y = bf16(W₂)·gelu(bf16(W₁)·bf16(x) + bf16(b₁)) + bf16(b₂), its inner states in bfloat16

In place of autocast's own products, whose kernel is made anew for every number of rows: packed batches have another
number at every step, and on CPUs with AMX making kernels took three times as long as multiplying. Here operands are
copied in any case to be rounded, into a buffer with a multiple of `ROWS` rows, so that few kernels serve all batches.
The last rows of a buffer are zero and never read.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from manyheads.encoder import onednn
from manyheads.encoder.in_place import is_plain

ROWS = 64


def multiplies_in_bfloat16(x: Tensor) -> bool:
    """Whether autocast asks for bfloat16 products here, on a CPU."""
    return (
        x.device.type == "cpu"
        and torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") == torch.bfloat16
    )


def to_float32(states: Tensor) -> Tensor:
    """What heads read: states that came in half precision, of a GPU or of transformers, are widened."""
    return states.to(torch.promote_types(states.dtype, torch.float32))


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x·Wᵀ + b in the precision that is asked for."""
    if multiplies_in_bfloat16(x):
        product: Tensor = Product.apply(x, weight, bias)
        return product
    if onednn.suits(x):
        return onednn.linear(x, weight, bias)
    return F.linear(x, weight, bias)


def project(x: Tensor, layer: nn.Linear) -> Tensor:
    """`linear` with a layer's weights; a layer that does more than that is called as it is."""
    return linear(x, layer.weight, layer.bias) if is_plain(layer) else layer(x)


def feed_forward(x: Tensor, up: nn.Linear, down: nn.Linear) -> Tensor:
    """W₂·gelu(W₁·x + b₁) + b₂ in the precision that is asked for."""
    if multiplies_in_bfloat16(x) and is_plain(up) and is_plain(down):
        result: Tensor = FeedForward.apply(x, up.weight, up.bias, down.weight, down.bias)
        return result
    return down(F.gelu(up(x)))


class Product(torch.autograd.Function):
    """y = x·Wᵀ + b        dx = dy·W      dW = dyᵀ·x      db = Σ dy"""

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            rounded_x, rounded_weight = _rounded(x), weight.bfloat16()
            y = F.linear(rounded_x, rounded_weight, bias.bfloat16())
            context.save_for_backward(rounded_x, rounded_weight)
            return y[: len(x)].float()

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        rounded_x, rounded_weight = context.saved_tensors
        wants_x, wants_weight, wants_bias = context.needs_input_grad
        with torch.autocast("cpu", enabled=False):
            rounded_gradient = _rounded(gradient)
            to_x = (rounded_gradient @ rounded_weight)[: len(gradient)].float() if wants_x else None
            to_weight = (rounded_gradient.T @ rounded_x).float() if wants_weight else None
            to_bias = gradient.sum(dim=0) if wants_bias else None
        return to_x, to_weight, to_bias


class FeedForward(torch.autograd.Function):
    """h = W₁·x + b₁, g = gelu(h), y = W₂·g + b₂        dh = gelu′(h) ∘ (dy·W₂), and every product's own as above"""

    @staticmethod
    def forward(context: Any, x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            rounded_x, rounded_up, rounded_down = _rounded(x), up.bfloat16(), down.bfloat16()
            h = F.linear(rounded_x, rounded_up, up_bias.bfloat16())
            g = F.gelu(h)
            y = F.linear(g, rounded_down, down_bias.bfloat16())
            context.save_for_backward(rounded_x, h, g, rounded_up, rounded_down)
            return y[: len(x)].float()

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rounded_x, h, g, rounded_up, rounded_down = context.saved_tensors
        wants_x, wants_up, wants_up_bias, wants_down, wants_down_bias = context.needs_input_grad
        with torch.autocast("cpu", enabled=False):
            rounded_gradient = _rounded(gradient)
            to_down = (rounded_gradient.T @ g).float() if wants_down else None
            to_down_bias = gradient.sum(dim=0) if wants_down_bias else None
            to_h = torch.ops.aten.gelu_backward(rounded_gradient @ rounded_down, h)
            to_x = (to_h @ rounded_up)[: len(gradient)].float() if wants_x else None
            to_up = (to_h.T @ rounded_x).float() if wants_up else None
            to_up_bias = (to_h.new_ones(1, len(to_h)) @ to_h)[0].float() if wants_up_bias else None
        return to_x, to_up, to_up_bias, to_down, to_down_bias


def _rounded(x: Tensor) -> Tensor:
    """[rows, width] in bfloat16, with rows of zeros up to the next multiple of `ROWS`."""
    rows, width = x.shape
    buffer = torch.empty(-(-rows // ROWS) * ROWS, width, dtype=torch.bfloat16)
    buffer[:rows].copy_(x)
    buffer[rows:].zero_()
    return buffer
