"""What a checkpoint holds: a list of named things with `state_dict` and `load_state_dict`, saved and loaded one by one.

    checkpoints/step-00000500/model.safetensors  optimizer.safetensors  …   tensors, a file for each thing
    checkpoints/step-00000500/state.json                                    plain values, under each thing's name

The next stateful thing is one more entry of the list. Nothing is pickled.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from manyheads.console import Reporter
from manyheads.errors import UserError
from manyheads.storage.files import DAMAGED, check_folder, write_folder
from manyheads.training.datasets import Round, batches_of

STATE_FILE = "state.json"
MODEL = "model"  # the entry of the weights
COMBINER_STATE = "combiner_state"  # the entry of what scalarizers, aggregators and regularisers learn and remember
OLD_FILES = {COMBINER_STATE: "memory"}  # an entry's file in checkpoints of 0.1
OLD_IN_PROGRESS = ("best", "pausing", "conflicts")  # entries whose fields stood under "progress" in 0.1
# fields of plain state → what they are called since 0.1
OLD_FIELDS = {
    "moved": "changed_since_evaluation",
    "running": "smoothed_losses",
    "stale": "evaluations_without_improvement",
    "peaks": "best_values",
    "waited": "evaluations_waited",
    "seen_at": "examples_at_evaluation",
    "pauses": "history",
    "measured": "measured_examples",
}


class Stateful(Protocol):
    """What can stand in a checkpoint: its state is tensors by name, or plain values by name."""

    def state_dict(self) -> Mapping[str, Any]: ...

    def load_state_dict(self, state: Any, /) -> Any: ...


class TrainingState:
    """Everything that a run needs to go on as if it had never stopped. Loaded in the order of the list."""

    def __init__(self, entries: dict[str, Stateful], keep: int = 2) -> None:
        """`keep`: how many of the last checkpoints stay."""
        self.entries, self.keep = entries, keep

    def save(self, folder: Path, step: int) -> None:
        """Write FOLDER/step-N, whole or not at all, and remove all but the ones before it that are kept."""
        older = find_checkpoints(folder)
        checkpoint = folder / f"step-{step:08d}"
        write_folder(checkpoint, self._write)
        for old in older[: 1 - self.keep]:
            if old.name != checkpoint.name:
                shutil.rmtree(old)

    def _write(self, folder: Path) -> None:
        plain = {}
        for name, entry in self.entries.items():
            state = entry.state_dict()
            if all(isinstance(value, Tensor) for value in state.values()):
                save_file(_on_cpu(state), folder / f"{name}.safetensors")
            else:
                plain[name] = state
        (folder / STATE_FILE).write_text(json.dumps(plain))

    def load(self, checkpoint: Path) -> None:
        """Put every entry back exactly where it was."""
        check_folder(checkpoint)
        plain = json.loads((checkpoint / STATE_FILE).read_text())
        for name, entry in self.entries.items():
            tensors = _tensor_file(checkpoint, name)
            if tensors is not None:
                entry.load_state_dict(_load(tensors))
            else:
                entry.load_state_dict(_plain_state(plain, name, checkpoint))


def find_checkpoints(folder: Path) -> list[Path]:
    """Whole checkpoints, oldest first."""
    return sorted(folder.glob("step-*"))


def load_weights(checkpoint: Path) -> dict[str, Tensor]:
    """The model's tensors in a checkpoint of a training."""
    check_folder(checkpoint)
    return _load(checkpoint / f"{MODEL}.safetensors")


def _tensor_file(checkpoint: Path, name: str) -> Path | None:
    for stem in (name, OLD_FILES.get(name, name)):
        file = checkpoint / f"{stem}.safetensors"
        if file.is_file():
            return file
    return None


def _plain_state(plain: dict[str, Any], name: str, checkpoint: Path) -> Any:
    if name in plain:
        return plain[name]
    if name in OLD_IN_PROGRESS and "step" in plain and "progress" in plain:  # only 0.1 wrote the step beside them
        return plain["progress"]
    raise UserError(
        f"{checkpoint}: it lacks the entry '{name}', which the run's recipe asks for. Give recipe.yaml of the run the "
        "settings back that it was trained with, or train it anew under another `name`.",
        "checkpoint-lacks-entry",
    )


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _load(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file}: not a whole safetensors file: {error}.{DAMAGED}", "damaged-file") from None


# --- entries that are plain values -----------------------------------------------------------------------------


class PlainState:
    """A dataclass whose fields are its state, kept as JSON."""

    def state_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        known = {item.name for item in fields(self)}  # type: ignore[arg-type]
        for name, value in state.items():
            name = OLD_FIELDS.get(name, name)
            if name in known:
                setattr(self, name, value)


@dataclass
class Progress(PlainState):
    """How far a run is."""

    step: int = 0  # optimizer steps taken
    seconds: float = 0.0  # spent on them
    examples: dict[str, int] = field(default_factory=dict)  # trained on so far, per task
    changed_since_evaluation: bool = False  # whether the weights did
    smoothed_losses: dict[str, float] = field(default_factory=dict)  # for display
    speed: float = 0.0  # smoothed examples per second, for display

    def count(self, rounds: list[Round], seconds: float) -> None:
        """A step was taken."""
        batches = batches_of(rounds)
        for batch in batches:
            self.examples[batch.task] = self.examples.get(batch.task, 0) + len(batch.indices)
        self.step += 1
        self.seconds += seconds
        self.changed_since_evaluation = True
        speed = sum(len(batch.indices) for batch in batches) / max(seconds, 1e-9)
        self.speed = 0.95 * self.speed + 0.05 * speed if self.speed else speed

    def note_losses(self, losses: dict[str, float]) -> None:
        for task, loss in losses.items():
            self.smoothed_losses[task] = 0.95 * self.smoothed_losses.get(task, loss) + 0.05 * loss

    def status(self) -> str:
        losses = "  ".join(f"{task} {loss:.3f}" for task, loss in self.smoothed_losses.items())
        return f"loss: {losses}  {self.speed:.0f} examples/s"


class DataUnchanged:
    """Fingerprints of the data: a run is not resumed on other data."""

    def __init__(self, folder: Path, fingerprints: dict[str, str]) -> None:
        self.folder, self.fingerprints = folder, fingerprints

    def state_dict(self) -> dict[str, str]:
        return self.fingerprints

    def load_state_dict(self, saved: dict[str, str]) -> None:
        changed = []
        for name in dict.fromkeys([*saved, *self.fingerprints]):
            if saved.get(name) != self.fingerprints.get(name):
                changed.append(name)
        if changed:
            raise UserError(
                f"{self.folder}: its data has changed since it was started ({', '.join(changed)}). Restore the files, "
                "or start it anew under another `name`.",
                "data-changed",
            )


class MachineUnchanged:
    """What must be equal for two runs to agree to the last bit: a resume with other versions or threads warns."""

    def __init__(self, facts: dict[str, str | int], reporter: Reporter) -> None:
        self.facts, self.reporter = facts, reporter

    def state_dict(self) -> dict[str, str | int]:
        return self.facts

    def load_state_dict(self, saved: dict[str, str | int]) -> None:
        if saved != self.facts:
            self.reporter.say(f"warning: started with {saved}, resumed with {self.facts}: results may differ")


# --- the optimizer ---------------------------------------------------------------------------------------------


class NamedOptimizer:
    """An optimizer whose moments are kept by the names of their parameters."""

    def __init__(self, optimizer: torch.optim.Optimizer, modules: dict[str, nn.Module]) -> None:
        """`modules`: prefix → what owns the parameters."""
        self.optimizer, self.modules = optimizer, modules

    def state_dict(self) -> dict[str, Tensor]:
        """'PARAMETER|MOMENT' → tensor."""
        tensors = {}
        for name, parameter in self._optimised().items():
            for moment, value in self.optimizer.state[parameter].items():
                tensors[f"{name}|{moment}"] = value
        return tensors

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        parameters = self._optimised()
        for key, value in tensors.items():
            name, _, moment = key.rpartition("|")
            for prefix, old_prefix in OLD_FILES.items():
                if name.startswith(f"{old_prefix}."):
                    name = f"{prefix}.{name.removeprefix(f'{old_prefix}.')}"
            parameter = parameters[name]
            if moment != "step":  # which Adam keeps on the CPU
                value = value.to(parameter.device)
            self.optimizer.state[parameter][moment] = value

    def _optimised(self) -> dict[str, nn.Parameter]:
        optimised = {parameter for group in self.optimizer.param_groups for parameter in group["params"]}
        named = {}
        for prefix, module in self.modules.items():
            for name, parameter in module.named_parameters(prefix=prefix):
                if parameter in optimised:
                    named[name] = parameter
        return named
