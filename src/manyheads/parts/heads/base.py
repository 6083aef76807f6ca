"""What a head must offer. Any module with this constructor will do; the class adds what a head may say of itself."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from manyheads.config.part import PartConfig


class Head(nn.Module):
    """Features [examples, features] → outputs [examples, outputs]. Built with these two numbers."""

    reads_similarity = False  # whether it takes a similarity, which is a prediction already, instead of features
    linear_map: nn.Linear | None = None  # the layer, where the head is nothing but a linear map of its features

    @classmethod
    def pooling(cls, options: dict[str, Any]) -> PartConfig | None:
        """The pooling that the head brings with it, where it reads token states itself."""
        return None

    def forward(self, features: Tensor) -> Tensor:
        raise NotImplementedError
