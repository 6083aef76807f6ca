"""Dropout whose mask is cheap to draw."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

LANES = 4  # 16-bit lanes in a 64-bit word
FEW = 2048  # elements for which it does not pay to set up a generator


def dropout(values: Tensor, rate: float) -> Tensor:
    """Zero each value with probability `rate`, scale the others by 1/(1 − rate)."""
    return values * dropout_mask(values, rate) if rate else values


def dropout_mask(values: Tensor, rate: float) -> Tensor:
    """What `values` are multiplied with: 0 with probability `rate`, else 1/(1 − rate).

    On CPU torch draws one number per element from a slow generator, which is a tenth of a training step. Here torch
    draws a seed, numpy's fastest generator makes 64-bit words of it, and each word serves four elements; the rate is
    met to within 1/65536.
    """
    if values.device.type != "cpu" or values.numel() < FEW:
        return torch.empty_like(values).bernoulli_(1 - rate).mul_(1 / (1 - rate))
    seed = int(torch.empty((), dtype=torch.int64).random_())
    words = np.random.SFC64(seed).random_raw(-(-values.numel() // LANES))
    lanes = torch.from_numpy(words.view(np.int16))[: values.numel()].view(values.shape)  # uniform in [−32768, 32767]
    # written as numbers at once: booleans would have to be turned into them
    least = min(round(rate * 65536), 65535) - 32768  # at any rate below 1 something may be kept
    mask = torch.ge(lanes, least, out=torch.empty(values.shape, dtype=values.dtype))
    return mask.mul_(1 / (1 - rate))


class Dropout(nn.Module):
    """`dropout` while training, nothing in evaluation."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, values: Tensor) -> Tensor:
        return dropout(values, self.rate) if self.training else values

    def extra_repr(self) -> str:
        return f"rate={self.rate}"
