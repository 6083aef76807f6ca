"""Which models an average is made of, and the mean of their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from manyheads.errors import UserError
from manyheads.model.folder import load_model
from manyheads.runs.run import Run
from manyheads.training.run_folder import checkpoints_of
from manyheads.training.state import find_checkpoints, load_weights

States = dict[str, Tensor]


@dataclass(frozen=True)
class Ingredient:
    """The weights of one model."""

    name: str
    run: Run
    checkpoint: Path | None = None  # where it is not best/

    @property
    def best_folder(self) -> Path:
        return self.run.folder / self.run.model_name

    @property
    def source(self) -> Path:
        """The folder of its weights: equal for a model that is named twice."""
        return (self.checkpoint or self.best_folder).resolve()

    def load(self) -> States:
        if self.checkpoint is not None:
            return load_weights(self.checkpoint)
        return load_model(self.best_folder)[0].state_dict()


def best_models(runs: Sequence[Run]) -> list[Ingredient]:
    if len(runs) < 2:
        raise UserError(
            "average: one run is its own average; name several runs, or --checkpoints for those that it keeps.",
            "too-few-models",
        )
    return [Ingredient(str(run.folder), run) for run in runs]


def kept_checkpoints(runs: Sequence[Run]) -> list[Ingredient]:
    if len(runs) != 1:
        raise UserError("average: --checkpoints are those of one run; name one.", "conflicting-options")
    (run,) = runs
    folders = find_checkpoints(checkpoints_of(run.folder))
    if len(folders) < 2:
        raise UserError(
            f"{checkpoints_of(run.folder)}: {len(folders)} checkpoints are too few to average; checkpoint.keep says "
            "how many a run keeps.",
            "too-few-models",
        )
    return [Ingredient(f"{run.folder} {folder.name}", run, folder) for folder in folders]


def add_weights(sums: States, weights: States) -> States:
    """Σ in float64; what is not a float, such as positions, is the same in all models and kept."""
    added: States = {}
    for name, tensor in weights.items():
        if tensor.is_floating_point():
            added[name] = tensor.double() if name not in sums else sums[name] + tensor.double()
        else:
            added[name] = tensor
    return added


def mean_weights(sums: States, count: int, like: States) -> States:
    """Σ/k, rounded once to the models' own precision."""
    means: States = {}
    for name, tensor in sums.items():
        means[name] = (tensor / count).to(like[name].dtype) if tensor.is_floating_point() else tensor
    return means
