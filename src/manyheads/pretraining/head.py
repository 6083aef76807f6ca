"""The masked-LM head, which predicts hidden tokens, as in BERT; its output layer is the word embeddings."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.encoder import Encoder
from manyheads.encoder.hf_names import OLD_NORM
from manyheads.encoder.loading import read_file, read_tensors
from manyheads.seeding import seeded_rng

FILE = "mlm-head.safetensors"
# our names ← those of Hugging Face's BertForMaskedLM and RobertaForMaskedLM
MODULES = {
    "cls.predictions.transform.dense": "dense",
    "cls.predictions.transform.LayerNorm": "norm",
    "cls.predictions": "",
    "lm_head.dense": "dense",
    "lm_head.layer_norm": "norm",
    "lm_head": "",
}


class MaskedHead(nn.Module):
    """norm(gelu(W·h + b))·Eᵀ + c: hidden states of chosen tokens → a score for every word piece; E is not its own."""

    def __init__(self, width: int, words: Tensor) -> None:
        super().__init__()
        self.dense = nn.Linear(width, words.shape[1])
        self.norm = nn.LayerNorm(words.shape[1], eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(len(words)))
        nn.init.normal_(self.dense.weight, std=0.02)
        nn.init.zeros_(self.dense.bias)

    def forward(self, states: Tensor, words: Tensor) -> Tensor:
        """[masked, width], [pieces, embedding width] → [masked, pieces]"""
        return F.linear(self.norm(F.gelu(self.dense(states))), words, self.bias)


def load_head(encoder: Encoder, folder: Path) -> tuple[MaskedHead, str]:
    """The head that comes with the encoder's files, or a new one; and which of the two it is."""
    with seeded_rng(0, "masked head"):
        head = MaskedHead(encoder.width, encoder.words)
    shapes = {name: tensor.shape for name, tensor in head.state_dict().items()}
    is_own_file = (folder / FILE).is_file()
    tensors = read_file(folder / FILE) if is_own_file else _from_hugging_face(read_tensors(folder), set(shapes))
    if {name: tensor.shape for name, tensor in tensors.items()} != shapes:
        part = " (the encoder's own files hold a part of one, which does not fit)" if tensors else ""
        return head, f"new, its output layer is the word embeddings{part}"
    head.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    return head, "that of the encoder's own files"


def _from_hugging_face(tensors: dict[str, Tensor], expected_names: set[str]) -> dict[str, Tensor]:
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        module, _, kind = name.rpartition(".")
        ours = ".".join(filter(None, [MODULES.get(module, module), OLD_NORM.get(kind, kind)]))
        if module in MODULES and ours in expected_names:
            renamed[ours] = tensor
    return renamed
