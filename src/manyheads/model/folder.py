"""A model folder (best/): all that prediction needs, as safetensors and JSON only; transformers' AutoModel opens it.

config.json, model.safetensors and the tokenizer's files are the encoder's; heads.safetensors holds the tasks' heads and
manyheads.json their description. `folder_checks` says what a folder must be before any of it is used.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from manyheads import registry
from manyheads.config.plugins import file_of_part
from manyheads.config.recipe import EncoderSettings
from manyheads.encoder.base import Encoder
from manyheads.encoder.bert import Bert, BertConfig
from manyheads.encoder.hf_names import to_hugging_face
from manyheads.encoder.loading import is_bert, load_encoder
from manyheads.encoder.trained_pooling import MODEL_KEY
from manyheads.model.folder_checks import (
    HEADS_FILE,
    MODEL_FILE,
    check_files,
    guarded,
    read_encoder_config,
    refused,
    tensor_shapes,
)
from manyheads.model.head import IncompatiblePart
from manyheads.model.multitask import ManyHeads
from manyheads.model.saved_tasks import FAMILIES, read_model_file
from manyheads.storage.files import CHECKSUMS, write_folder
from manyheads.tasks.kind import Calibration
from manyheads.tasks.task import Task
from manyheads.tokens.tokenizer import Tokenizer

TOKENIZER_FILES = ("tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "merges.txt",
                   "vocab.json", "spiece.model", "sentencepiece.bpe.model", "added_tokens.json")  # fmt: skip
ROOM = 4  # times the weights in its file that an encoder may have: some share tensors

Shapes = dict[str, tuple[int, ...]]


# --- saving ---------------------------------------------------------------------------------------------------------


def save_model(
    folder: Path,
    model: ManyHeads,
    encoder_folder: Path,
    about: dict[str, Any],
    calibration: Mapping[str, Calibration] | None = None,
) -> None:
    """`about` says what the model is: its run, step, and on what it was chosen; `calibration` what was fitted there."""
    fitted = calibration or {}

    def fill(aside: Path) -> None:
        earlier = model.earlier
        if earlier is None:
            model.encoder.save(aside)
            _drop_code_keys(aside / "config.json")
            copy_tokenizer(encoder_folder, model.tokenizer, aside)
        else:
            earlier.copy_files(aside)
        heads = {name: tensor.detach().cpu().contiguous() for name, tensor in model.head_states().items()}
        save_file(heads if earlier is None else earlier.with_heads(heads), aside / HEADS_FILE)
        tasks = [task.with_calibration(fitted.get(name, {})).to_json() for name, task in model.tasks.items()]
        content = {
            "about": about,
            "max_length": model.max_length,
            MODEL_KEY: model.encoder.trained_pooling,
            "tasks": tasks,
            "imports": _imported_parts(model),
        }
        if earlier is not None:
            content = earlier.with_content(content)
        (aside / MODEL_FILE).write_text(json.dumps(content, indent=2) + "\n")

    write_folder(folder, fill)


def _drop_code_keys(file: Path) -> None:
    """An encoder from the hub may name code of its own, which manyheads never ran."""
    config = json.loads(file.read_text(encoding="utf-8"))
    if config.pop("auto_map", None) is not None:
        file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _imported_parts(model: ManyHeads) -> dict[str, str]:
    """'losses/huber' → the name of the imported file that registered it."""
    names: set[tuple[str, str]] = set()
    for task in model.tasks.values():
        for key, family in FAMILIES.items():
            names.add((family, getattr(task, key).name))
        for metric in task.metrics:
            names.add(("metrics", metric.name))
    imported = {}
    for family, name in sorted(names):
        file = file_of_part(registry.find(family, name))
        if file is not None:
            imported[f"{family}/{name}"] = file.name
    return imported


def copy_tokenizer(source: Path, tokenizer: Tokenizer, target: Path) -> None:
    """All that transformers' AutoTokenizer reads."""
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
    tokenizer.backend.save(str(target / "tokenizer.json"))  # whatever kind of file it was read from


def link_folder(source: Path, target: Path) -> None:
    """A second name for a model folder's files, without a second copy of its weights."""

    def fill(aside: Path) -> None:
        for file in source.iterdir():
            if file.name != CHECKSUMS:
                try:
                    os.link(file, aside / file.name)
                except OSError:  # a file system without hard links
                    shutil.copyfile(file, aside / file.name)

    write_folder(target, fill)


# --- loading --------------------------------------------------------------------------------------------------------


def load_model(folder: Path) -> tuple[ManyHeads, dict[str, Any]]:
    """A model as it was saved, in eval mode, and what was said about it. Reads the folder only; never writes."""
    check_files(folder)
    content, tasks = read_model_file(folder)
    encoder = _load_encoder(folder)
    with guarded(folder / "tokenizer.json"):
        tokenizer = Tokenizer(folder)
    _check_special_tokens(folder, tokenizer, encoder, content.max_length)
    heads_file = folder / HEADS_FILE
    model = _build_heads(folder, encoder, tasks, tokenizer, content.max_length)
    with guarded(heads_file, "damaged-model"):
        heads = load_file(heads_file)
    for name, tensor in heads.items():
        _check_finite(heads_file, name, tensor)
    model.load_state_dict(heads, strict=False)  # the encoder is loaded already
    return model.eval(), content.about


def _load_encoder(folder: Path) -> Encoder:
    shapes = tensor_shapes(folder, "model*.safetensors")
    config = read_encoder_config(folder, len(shapes))
    with guarded(folder / "config.json"):
        _check_encoder_size(folder, config, shapes)
        encoder = load_encoder(EncoderSettings(name=str(folder))).encoder
    for name, tensor in encoder.state_dict().items():
        _check_finite(folder / "model.safetensors", name, tensor)
    return encoder


def _check_encoder_size(folder: Path, config: dict[str, Any], shapes: Shapes) -> None:
    """Before any memory is taken: config.json describes the weights that lie beside it."""
    if is_bert(config):
        with torch.device("meta"):
            expected = to_hugging_face(Bert(BertConfig.of(config)).state_dict())
        for name, tensor in expected.items():
            if shapes.get(name) != tuple(tensor.shape):
                reason = f"asks for tensor '{name}' of shape {list(tensor.shape)}, the weights have {shapes.get(name)}."
                raise refused(folder / "config.json", reason)
        if len(shapes) > len(expected):
            reason = f"describes {len(expected)} tensors, the weights have {len(shapes)}."
            raise refused(folder / "config.json", reason)
        return
    from transformers import AutoConfig, AutoModel

    loaded = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    with torch.device("meta"):
        skeleton = AutoModel.from_config(loaded, trust_remote_code=False)
    described = skeleton.num_parameters()
    stored = sum(torch.Size(shape).numel() for shape in shapes.values())
    if described > ROOM * stored:
        raise refused(folder / "config.json", f"describes {described:,} weights, the files hold {stored:,}.")


def _build_heads(
    folder: Path, encoder: Encoder, tasks: dict[str, Task], tokenizer: Tokenizer, max_length: int
) -> ManyHeads:
    """The model with its heads, after a trial without memory has shown that they are those of heads.safetensors."""
    stored = tensor_shapes(folder, HEADS_FILE)
    with guarded(folder / MODEL_FILE):
        try:
            with torch.device("meta"):
                skeleton = ManyHeads(encoder, tasks, tokenizer, max_length, seed=0)
        except IncompatiblePart as fault:
            raise refused(folder / MODEL_FILE, f"task '{fault.task}': {fault.part}: {fault}.") from None
        expected = {name: tuple(tensor.shape) for name, tensor in skeleton.head_states().items()}
        if stored != expected:
            reason = "its heads do not fit: they were made by another version of manyheads, or of an imported file."
            raise refused(folder, reason)
        return ManyHeads(encoder, tasks, tokenizer, max_length, seed=0)


def _check_special_tokens(folder: Path, tokenizer: Tokenizer, encoder: Encoder, max_length: int) -> None:
    """The tokenizer's own tokens are the encoder's, and leave room for a text."""
    special = tokenizer.special_tokens
    largest = max([0, *special.start.tolist(), *special.middle.tolist(), *special.end.tolist()])
    if largest >= len(encoder.words):
        reason = f"a special token has the id {largest}, the encoder knows {len(encoder.words)}."
        raise refused(folder / "tokenizer.json", reason)
    if min(max_length, encoder.max_length) < special.around_pair + 2:
        reason = f"max_length {max_length} leaves no room for two texts and their {special.around_pair} special tokens."
        raise refused(folder / MODEL_FILE, reason)


def _check_finite(file: Path, name: str, tensor: Tensor) -> None:
    if not torch.isfinite(tensor).all():
        raise refused(file, f"tensor '{name}' has values that are not finite.")
