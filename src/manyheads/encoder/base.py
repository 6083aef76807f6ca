"""What every encoder offers, whichever code runs it."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from manyheads.tokens import PackedTokens


class Encoder(nn.Module):
    """Packed tokens → hidden states, in two visible steps so that a regulariser can perturb between them."""

    width: int  # of a hidden state
    max_length: int  # longest sequence it can take
    layers: nn.ModuleList  # in order, for freezing and layer-wise rates
    pooler: nn.Module | None  # the encoder's own dense + tanh on the first token, where it has one

    def embed(self, tokens: PackedTokens) -> Tensor:
        """Token embeddings [tokens, width]."""
        raise NotImplementedError

    def encode(self, embedded: Tensor, tokens: PackedTokens) -> Tensor:
        """Last layer's states [kept rows, width], laid out as `tokens.kept_starts` says."""
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors as transformers' AutoModel reads them."""
        raise NotImplementedError

    def forward(self, tokens: PackedTokens) -> Tensor:
        return self.encode(self.embed(tokens), tokens)
