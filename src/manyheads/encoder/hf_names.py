"""BERT's tensor names: Hugging Face ↔ ours."""

from __future__ import annotations

import torch
from torch import Tensor

_OUTSIDE = {
    "embeddings.word_embeddings": "word",
    "embeddings.position_embeddings": "position",
    "embeddings.token_type_embeddings": "segment",
    "embeddings.LayerNorm": "norm",
    "pooler.dense": "pooler",
}
_INSIDE = {
    "attention.output.dense": "attention_out",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "up",
    "output.dense": "down",
    "output.LayerNorm": "norm",
}
_FUSED = ("attention.self.query", "attention.self.key", "attention.self.value")
OLD_NORM = {"gamma": "weight", "beta": "bias"}  # checkpoints converted from TensorFlow


def from_hugging_face(tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Tensors under our names, with Q, K and V fused; and the names of those that have no place here."""
    ours: dict[str, Tensor] = {}
    unexpected: list[str] = []
    fused: dict[str, dict[str, Tensor]] = {}
    for full_name, tensor in tensors.items():
        name = full_name.removeprefix("bert.")
        module, _, kind = name.rpartition(".")
        kind = OLD_NORM.get(kind, kind)
        if module in _OUTSIDE:
            ours[f"{_OUTSIDE[module]}.{kind}"] = tensor
        elif module.startswith("encoder.layer."):
            _, _, index, inner = module.split(".", 3)
            if inner in _INSIDE:
                ours[f"layers.{index}.{_INSIDE[inner]}.{kind}"] = tensor
            elif inner in _FUSED:
                fused.setdefault(f"layers.{index}.query_key_value.{kind}", {})[inner] = tensor
            else:
                unexpected.append(full_name)
        elif name != "embeddings.position_ids":  # a constant that older checkpoints store
            unexpected.append(full_name)
    for name, parts in fused.items():
        if len(parts) == len(_FUSED):
            ours[name] = torch.cat([parts[part] for part in _FUSED])
    return ours, unexpected


def to_hugging_face(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `from_hugging_face`."""
    outside = dict(zip(_OUTSIDE.values(), _OUTSIDE, strict=True))
    inside = dict(zip(_INSIDE.values(), _INSIDE, strict=True))
    theirs: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        module, _, kind = name.rpartition(".")
        if not module.startswith("layers."):
            theirs[f"{outside[module]}.{kind}"] = tensor
            continue
        _, index, inner = module.split(".")
        prefix = f"encoder.layer.{index}"
        if inner == "query_key_value":
            for part, piece in zip(_FUSED, tensor.chunk(3), strict=True):
                theirs[f"{prefix}.{part}.{kind}"] = piece.contiguous()
        else:
            theirs[f"{prefix}.{inside[inner]}.{kind}"] = tensor
    return theirs
