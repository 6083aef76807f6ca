"""Dropout whose mask is cheap to draw."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LANES = 4  # 16-bit lanes in a 64-bit word


def dropout(values: Tensor, rate: float) -> Tensor:
    """Zero each value with probability `rate`, scale the others by 1/(1 − rate).

    On CPU torch draws one number per element, which is a tenth of a training step. One full-range 64-bit word
    serves four elements here; the rate is met to within 1/65536.
    """
    if not rate:
        return values
    if values.device.type != "cpu":
        return F.dropout(values, rate)
    words = torch.empty(-(-values.numel() // LANES), dtype=torch.int64).random_(-(2**63), None)
    lanes = words.view(torch.int16)[: values.numel()].view(values.shape)  # uniform in [−32768, 32767]
    kept = lanes >= round(rate * 65536) - 32768
    # scaled at once, and in the values' own type: a product with booleans would turn them into numbers every time
    return values * torch.where(kept, 1 / (1 - rate), 0.0).to(values.dtype)


class Dropout(nn.Module):
    """`dropout` while training, nothing in evaluation."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, values: Tensor) -> Tensor:
        return dropout(values, self.rate) if self.training else values

    def extra_repr(self) -> str:
        return f"rate={self.rate}"
