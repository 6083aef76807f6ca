"""What every encoder offers, whichever code runs it."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from manyheads.encoder.trained_pooling import TrainedPooling
from manyheads.tokens.packing import PackedTokens


class Encoder(nn.Module):
    """Packed tokens → hidden states, in two visible steps so that a regulariser can perturb between them."""

    width: int  # of a hidden state
    depth: int  # number of layers
    max_length: int  # longest sequence it can take
    layers: nn.ModuleList  # in order, for freezing and layer-wise rates
    pooler: nn.Module | None  # the encoder's own dense + tanh on the first token, where it has one
    has_pooler_weights = True  # False where the pooler is there, but the encoder's file had no weights for it
    trained_pooling: TrainedPooling = "mean"  # how it was trained to make one vector of token states
    config: Any  # its settings, whose text changes with them

    @property
    def words(self) -> Tensor:
        """The embeddings of word pieces [pieces, embedding width]."""
        raise NotImplementedError

    @property
    def uses_dropout(self) -> bool:
        """Whether the same input may now give other states a second time."""
        return self.training

    def layer_of(self, parameter: str) -> int:
        """Which layer a parameter belongs to, from 1; 0 is the embeddings; the pooler counts as of the last layer."""
        if not hasattr(self, "_layer_of"):
            numbers: dict[int, int] = {}
            for number, layer in enumerate(self.layers, 1):
                numbers |= dict.fromkeys(map(id, layer.parameters()), number)
            if self.pooler is not None:
                numbers |= dict.fromkeys(map(id, self.pooler.parameters()), self.depth)
            self._layer_of = {name: numbers.get(id(tensor), 0) for name, tensor in self.named_parameters()}
        return self._layer_of[parameter]

    def embed(self, tokens: PackedTokens) -> Tensor:
        """Token embeddings [tokens, width]."""
        raise NotImplementedError

    def states(self, embedded: Tensor, tokens: PackedTokens, layers: Set[int]) -> dict[int, Tensor]:
        """The states of some layers (0: the embeddings), [kept rows, width] each, as `tokens.kept_starts` says.

        Layers above the highest wanted one are not run, nor those up to `tokens.layer`, whose states are given.
        """
        raise NotImplementedError

    def encode(self, embedded: Tensor, tokens: PackedTokens) -> Tensor:
        """The last layer's states."""
        return self.states(embedded, tokens, {self.depth})[self.depth]

    def disable_embedding_dropout(self) -> None:
        """Switch off dropout on embeddings: those that do not learn are then the same every time."""

    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors as transformers' AutoModel reads them."""
        raise NotImplementedError

    def forward(self, tokens: PackedTokens) -> Tensor:
        return self.encode(self.embed(tokens), tokens)
