"""A checkpoint: all that training needs to go on as if it had never stopped, as safetensors and JSON only."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from manyheads.errors import UserError
from manyheads.storage.files import DAMAGED, check_folder, write_folder


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


def _load(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file}: not a whole safetensors file: {error}.{DAMAGED}") from None
