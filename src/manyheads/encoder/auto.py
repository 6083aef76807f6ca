"""Any other transformers encoder behind the same face.

Packed tokens are padded for the model and unpacked behind it, so what is gained by packing is lost here; results
are the same. `embed` gives word embeddings only: position, segment and norm are added inside the model, so a
regulariser that perturbs embeddings does so before them.
"""

from __future__ import annotations

import inspect
from collections.abc import Set
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.config.recipe import EncoderSettings
from manyheads.encoder.base import Encoder
from manyheads.errors import UserError
from manyheads.tokens.packing import PackedTokens

LONGEST = 512


class AutoEncoder(Encoder):
    """A transformers model run on padded batches."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.config = model.config
        self.width = int(model.config.hidden_size)
        self.depth = int(model.config.num_hidden_layers)
        positions = int(getattr(model.config, "max_position_embeddings", LONGEST) or LONGEST)
        # RoBERTa numbers positions from padding_idx + 1, so that many of its rows are never used
        reserved = (model.config.pad_token_id or 0) + 1 if model.config.model_type in OFFSET_POSITIONS else 0
        self.max_length = min(positions - reserved, LONGEST)
        # past nn.Module's registration: the layers already belong to `model`, and would be saved twice
        object.__setattr__(self, "layers", _find_layers(model))
        self.pooler = None
        segments = int(getattr(model.config, "type_vocab_size", 0) or 0)
        self.takes_segments = "token_type_ids" in inspect.signature(model.forward).parameters and segments > 1

    def embed(self, tokens: PackedTokens) -> Tensor:
        return self.model.get_input_embeddings()(tokens.ids)

    def states(self, embedded: Tensor, tokens: PackedTokens, layers: Set[int]) -> dict[int, Tensor]:
        if tokens.states is not None:
            return dict.fromkeys(layers, embedded)  # kept states of the one layer that is read
        longest = int(tokens.lengths.max())
        real = torch.arange(longest, device=embedded.device) < tokens.lengths[:, None]  # [sequences, longest]
        rows = (tokens.starts[:, None] + torch.arange(longest, device=embedded.device))[real]
        padded = embedded.new_zeros((*real.shape, embedded.shape[1])).masked_scatter(real[..., None], embedded[rows])
        options: dict[str, Tensor] = {}
        if self.takes_segments:
            options["token_type_ids"] = torch.zeros(real.shape, dtype=torch.long, device=embedded.device)
            options["token_type_ids"][real] = tokens.segments[rows]
        inner = layers != {self.depth}
        output = self.model(inputs_embeds=padded, attention_mask=real.long(), output_hidden_states=inner, **options)
        order = torch.argsort(rows)  # padded batches are in the order of the sequences, packed rows are not
        packed: dict[int, Tensor] = {}
        for layer in layers:
            # the last of `hidden_states` lacks the final norm that some models have
            states = output.last_hidden_state if layer == self.depth else output.hidden_states[layer]
            packed[layer] = states[real][order]
            if tokens.kept_rows is not None:
                packed[layer] = packed[layer][tokens.kept_rows]
        return packed

    @property
    def words(self) -> Tensor:
        return self.model.get_input_embeddings().weight

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(folder)


OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert", "mpnet", "longformer")


def _find_layers(model: nn.Module) -> nn.ModuleList:
    """The list of transformer layers: the first module list as long as the model is deep."""
    depth = getattr(model.config, "num_hidden_layers", None)
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == depth:
            return module
    return nn.ModuleList()  # ALBERT and its like share one layer


def load_auto(folder: Path, settings: EncoderSettings) -> AutoEncoder:
    """Load a folder with transformers' AutoModel; safetensors only."""
    from transformers import AutoConfig, AutoModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        if config.is_encoder_decoder:
            raise UserError(
                f"{folder}: '{config.model_type}' is an encoder-decoder; name an encoder.", code="not-an-encoder"
            )
        _set_rate(config, ("hidden_dropout_prob", "dropout", "hidden_dropout"), settings.dropout)
        _set_rate(config, ("attention_probs_dropout_prob", "attention_dropout"), settings.attention_dropout)
        model = AutoModel.from_pretrained(
            folder,
            config=config,
            use_safetensors=True,
            dtype=torch.float32,
            trust_remote_code=False,  # a folder may ask for code of its own
            local_files_only=True,
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = str(error).strip().split("\n")[0]
        raise UserError(f"{folder}: transformers cannot load this encoder: {reason}", code="bad-encoder") from None
    if settings.embedding_dropout is not None:
        _set_embedding_dropout(model, settings.embedding_dropout, folder)
    return AutoEncoder(model)


def _set_rate(config: Any, names: tuple[str, ...], rate: float | None) -> None:
    """Models call the same dropout rate by different names."""
    for name in names:
        if rate is not None and hasattr(config, name):
            setattr(config, name, rate)


def _set_embedding_dropout(model: nn.Module, rate: float, folder: Path) -> None:
    dropouts: list[nn.Dropout] = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Dropout) and "embeddings" in name.split("."):
            dropouts.append(module)
    if not dropouts:
        raise UserError(
            f"{folder}: it has no dropout on its embeddings; leave encoder.embedding_dropout out.",
            code="no-embedding-dropout",
        )
    for dropout in dropouts:
        dropout.p = rate
