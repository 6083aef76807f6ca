"""The head that guesses hidden tokens, as in BERT; its output layer is the word embeddings."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.encoder import Encoder
from manyheads.seeding import draws

FILE = "mlm-head.safetensors"
# our names ← those of a Hugging Face BertForMaskedLM
NAMES = {
    "dense.weight": "cls.predictions.transform.dense.weight",
    "dense.bias": "cls.predictions.transform.dense.bias",
    "norm.weight": "cls.predictions.transform.LayerNorm.weight",
    "norm.bias": "cls.predictions.transform.LayerNorm.bias",
    "bias": "cls.predictions.bias",
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
    with draws(0, "masked head"):
        head = MaskedHead(encoder.width, encoder.words)
    wanted = {name: tensor.shape for name, tensor in head.state_dict().items()}
    if (folder / FILE).is_file():
        found = load_file(folder / FILE)
    else:
        tensors: dict[str, Tensor] = {}
        for file in sorted(folder.glob("model*.safetensors")):
            tensors |= {name: one for name, one in load_file(file).items() if name in NAMES.values()}
        found = {ours: tensors[theirs] for ours, theirs in NAMES.items() if theirs in tensors}
    if {name: one.shape for name, one in found.items()} != wanted:
        return head, "new, its output layer is the word embeddings"
    head.load_state_dict({name: one.float() for name, one in found.items()})
    return head, "that of the encoder's own files"
