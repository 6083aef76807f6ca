"""What a run keeps of a model, as safetensors and JSON only.

A *model folder* (best/) holds what prediction needs and opens with transformers' AutoModel. A *checkpoint* holds in
addition what training needs to go on as if it had never stopped.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from manyheads.config.recipe import EncoderSettings
from manyheads.encoder.loading import load_encoder
from manyheads.errors import UserError
from manyheads.model.multitask import ManyHeads
from manyheads.storage.files import CHECKSUMS, DAMAGED, check_folder, restore_folder, write_folder
from manyheads.tasks.task import Task
from manyheads.tokens.tokenizer import Tokenizer

TOKENIZER_FILES = ("tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "merges.txt",
                   "vocab.json", "spiece.model", "sentencepiece.bpe.model", "added_tokens.json")  # fmt: skip


# --- model folders ---------------------------------------------------------------------------------------------


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
        raise UserError(f"{folder}: there is no such model folder.")
    check_folder(folder)
    saved = json.loads((folder / "manyheads.json").read_text())
    tasks = {one["name"]: Task.from_json(one) for one in saved["tasks"]}
    encoder = load_encoder(EncoderSettings(name=str(folder))).encoder
    model = ManyHeads(encoder, tasks, Tokenizer(folder), saved["max_length"], seed=0)
    found = _load(folder / "heads.safetensors")
    if _shapes(found) != _shapes(model.head_states()):
        raise UserError(
            f"{folder}: its heads do not fit: they were made by another version of manyheads, or of an imported file."
        )
    model.load_state_dict(found, strict=False)  # the encoder is loaded already
    return model.eval(), saved["about"]


# --- checkpoints -----------------------------------------------------------------------------------------------


def save_checkpoint(
    folder: Path,
    step: int,
    model: nn.Module,
    memory: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: dict[str, Any],
) -> None:
    """Write checkpoints/step-N and remove all but the one before it."""
    names = _names(model, memory, optimizer)

    def fill(aside: Path) -> None:
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()},
            aside / "model.safetensors",
        )
        remembered = {name: tensor.detach().cpu().contiguous() for name, tensor in memory.state_dict().items()}
        save_file(remembered, aside / "memory.safetensors")
        moments = {
            f"{name}|{key}": value.detach().cpu().contiguous()
            for parameter, name in names.items()
            for key, value in optimizer.state[parameter].items()
        }
        save_file(moments, aside / "optimizer.safetensors")
        (aside / "state.json").write_text(json.dumps({"step": step, **state}))

    before = find_checkpoints(folder)
    write_folder(folder / f"step-{step:08d}", fill)
    for old in before[:-1]:
        if old.name != f"step-{step:08d}":
            shutil.rmtree(old)


def find_checkpoints(folder: Path) -> list[Path]:
    """Whole checkpoints, oldest first."""
    return sorted(folder.glob("step-*")) if folder.is_dir() else []


def read_state(checkpoint: Path) -> dict[str, Any]:
    check_folder(checkpoint)
    state: dict[str, Any] = json.loads((checkpoint / "state.json").read_text())
    return state


def load_checkpoint(checkpoint: Path, model: nn.Module, memory: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put model, task weights and optimizer back exactly where they were. `read_state` has verified the folder."""
    model.load_state_dict(_load(checkpoint / "model.safetensors"))
    memory.load_state_dict(_load(checkpoint / "memory.safetensors"))
    moments: dict[str, dict[str, Tensor]] = {}
    for key, value in _load(checkpoint / "optimizer.safetensors").items():
        name, _, moment = key.rpartition("|")
        moments.setdefault(name, {})[moment] = value
    for parameter, name in _names(model, memory, optimizer).items():
        if name in moments:
            optimizer.state[parameter] = {
                key: value if key == "step" else value.to(parameter.device) for key, value in moments[name].items()
            }


def _names(model: nn.Module, memory: nn.Module, optimizer: torch.optim.Optimizer) -> dict[torch.nn.Parameter, str]:
    optimised = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    every = dict(model.named_parameters())
    every |= {f"memory.{name}": one for name, one in memory.named_parameters()}
    return {parameter: name for name, parameter in every.items() if parameter in optimised}


def _shapes(tensors: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: one.shape for name, one in tensors.items()}


def _load(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file}: not a whole safetensors file: {error}.{DAMAGED}") from None
