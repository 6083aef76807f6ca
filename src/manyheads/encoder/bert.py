"""minBERT over packed tokens, to be read beside "BERT: Pre-training of Deep Bidirectional Transformers" (2018).

    embed   e = drop(norm(word[id] + position[i] + segment[s]))
    layer   a = norm(x + drop(O·attention(Q·x, K·x, V·x)))
            y = norm(a + drop(W₂·gelu(W₁·a)))

All linear layers, norms and activations run on [tokens, width]: no padding token exists. Of the last layer only
those rows are computed that pooling asks for (`tokens.kept_rows`): keys and values need every token, the rest does not.
"""

from __future__ import annotations

import json
from collections.abc import Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.encoder.attention import attend
from manyheads.encoder.base import Encoder
from manyheads.encoder.bfloat16 import feed_forward, linear, project
from manyheads.encoder.dropout import Dropout
from manyheads.encoder.in_place import finish_in_place, may_run_in_place
from manyheads.tokens.packing import PackedTokens


@dataclass(frozen=True)
class BertConfig:
    """The fields of a Hugging Face BERT config.json that matter here, under their own names."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    initializer_range: float = 0.02

    @classmethod
    def of(cls, config: dict[str, Any]) -> BertConfig:
        return cls(**{name: config[name] for name in cls.__dataclass_fields__ if name in config})


class Layer(nn.Module):
    """One post-norm transformer layer."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.heads = config.num_attention_heads
        self.attention_dropout = config.attention_probs_dropout_prob
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)
        self.norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, tokens: PackedTokens, kept_rows: Tensor | None = None) -> Tensor:
        """[tokens, width] → the same, or → [kept rows, width] where only some rows are wanted."""
        drop = self.attention_dropout if self.training else 0.0
        if kept_rows is None:
            attended = attend(None, project(x, self.query_key_value), tokens, self.heads, drop)
        else:
            weight, bias, width = self.query_key_value.weight, self.query_key_value.bias, x.shape[1]
            key_value = linear(x, weight[width:], bias[width:])
            x = x[kept_rows]
            attended = attend(linear(x, weight[:width], bias[:width]), key_value, tokens, self.heads, drop)
        if may_run_in_place(self, x):
            return finish_in_place(self, x, attended)
        a = self.attention_norm(x + self.dropout(project(attended, self.attention_out)))
        return self.norm(a + self.dropout(feed_forward(a, self.up, self.down)))


class Bert(Encoder):
    """BERT, MiniLM, bge, gte, e5 and whatever else has BERT's architecture."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.width = config.hidden_size
        self.depth = config.num_hidden_layers
        self.max_length = config.max_position_embeddings
        self.word = nn.Embedding(config.vocab_size, self.width)
        self.position = nn.Embedding(config.max_position_embeddings, self.width)
        self.segment = nn.Embedding(config.type_vocab_size, self.width)
        self.norm = nn.LayerNorm(self.width, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.pooler = nn.Linear(self.width, self.width)
        self.apply(self._initialise)

    def _initialise(self, module: nn.Module) -> None:
        """BERT's start: weights from N(0, 0.02²), biases zero."""
        if not isinstance(module, nn.Linear | nn.Embedding):
            return
        if module.weight.is_meta:  # there is nothing to fill, and torch takes longer to see that than to fill it
            return
        nn.init.normal_(module.weight, std=self.config.initializer_range)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def embed(self, tokens: PackedTokens) -> Tensor:
        summed = self.word(tokens.ids) + self.position(tokens.positions) + self.segment(tokens.segments)
        return self.dropout(self.norm(summed))

    def states(self, embedded: Tensor, tokens: PackedTokens, layers: Set[int]) -> dict[int, Tensor]:
        states: dict[int, Tensor] = {}
        x, top = embedded, max(layers)
        for number in range(tokens.layer, top):
            if number in layers:
                states[number] = _kept_states(x, tokens)
            rows = tokens.kept_rows if number + 1 == top else None
            x = self.layers[number](x, tokens, rows)
        states[top] = x if top > tokens.layer else _kept_states(x, tokens)
        return states

    @property
    def words(self) -> Tensor:
        return self.word.weight

    @property
    def uses_dropout(self) -> bool:
        config = self.config
        rates = (self.dropout.rate, config.hidden_dropout_prob, config.attention_probs_dropout_prob)
        return self.training and max(rates) > 0

    def disable_embedding_dropout(self) -> None:
        self.dropout.eval()

    def save(self, folder: Path) -> None:
        from safetensors.torch import save_file

        from manyheads.encoder.hf_names import to_hugging_face

        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()}
        save_file(to_hugging_face(tensors), folder / "model.safetensors", metadata={"format": "pt"})
        config = {"model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu", **asdict(self.config)}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def _kept_states(states: Tensor, tokens: PackedTokens) -> Tensor:
    return states if tokens.kept_rows is None else states[tokens.kept_rows]


def random_bert(config: BertConfig, seed: int) -> Bert:
    """An untrained BERT, the same for the same seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Bert(config)
