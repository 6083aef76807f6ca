"""A *model folder* (best/): what prediction needs, as safetensors and JSON only. transformers' AutoModel opens it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from manyheads.config.recipe import EncoderSettings
from manyheads.encoder.loading import load_encoder
from manyheads.errors import UserError
from manyheads.model.multitask import ManyHeads
from manyheads.storage.files import CHECKSUMS, DAMAGED, check_folder, restore_folder, write_folder
from manyheads.tasks.task import Task
from manyheads.tokens.tokenizer import Tokenizer

TOKENIZER_FILES = ("tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "merges.txt",
                   "vocab.json", "spiece.model", "sentencepiece.bpe.model", "added_tokens.json")  # fmt: skip


def save_model(folder: Path, model: ManyHeads, encoder_folder: Path, about: dict[str, Any]) -> None:
    """`about` says what the model is: its run, step, and on what it was chosen."""

    def fill(aside: Path) -> None:
        model.encoder.save(aside)
        copy_tokenizer(encoder_folder, model.tokenizer, aside)
        heads = {name: tensor.detach().cpu().contiguous() for name, tensor in model.head_states().items()}
        save_file(heads, aside / "heads.safetensors")
        tasks = [task.to_json() for task in model.tasks.values()]
        content = {"about": about, "max_length": model.max_length, "tasks": tasks}
        (aside / "manyheads.json").write_text(json.dumps(content, indent=2) + "\n")

    write_folder(folder, fill)


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


def load_model(folder: Path) -> tuple[ManyHeads, dict[str, Any]]:
    """A model as it was saved, and what was said about it."""
    restore_folder(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such model folder.", "no-model")
    check_folder(folder)
    saved = json.loads((folder / "manyheads.json").read_text())
    tasks = {one["name"]: Task.from_json(one) for one in saved["tasks"]}
    encoder = load_encoder(EncoderSettings(name=str(folder))).encoder
    model = ManyHeads(encoder, tasks, Tokenizer(folder), saved["max_length"], seed=0)
    found = _load(folder / "heads.safetensors")
    if _shapes(found) != _shapes(model.head_states()):
        raise UserError(
            f"{folder}: its heads do not fit: they were made by another version of manyheads, or of an imported file.",
            "heads-do-not-fit",
        )
    model.load_state_dict(found, strict=False)  # the encoder is loaded already
    return model.eval(), saved["about"]


def _shapes(tensors: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: one.shape for name, one in tensors.items()}


def _load(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file}: not a whole safetensors file: {error}.{DAMAGED}", "damaged-file") from None
