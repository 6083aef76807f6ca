"""A linear layer on what an LSTM makes of the token states."""

from __future__ import annotations

from typing import Any

from manyheads.config.part import PartConfig
from manyheads.parts.heads.linear import Linear
from manyheads.registry import Count, Share, register


@register("heads", "lstm", paper="D")
class LstmHead(Linear):
    """W·drop([h→_n; h←_1]) + b: an LSTM of `units` each way reads the token states, a linear layer its last states.

    It brings the pooling `lstm`, so a recipe names no other. With a bi-encoder the LSTM reads each sentence, and the
    encoding joins the two results.
    """

    def __init__(
        self, features: int, outputs: int, *, units: Count = 128, bidirectional: bool = True, dropout: Share = 0.1
    ) -> None:
        super().__init__(features, outputs, dropout=dropout)

    @classmethod
    def pooling(cls, options: dict[str, Any]) -> PartConfig:
        return PartConfig(
            name="lstm", options={key: options[key] for key in ("units", "bidirectional") if key in options}
        )
