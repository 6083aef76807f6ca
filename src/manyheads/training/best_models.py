"""best/ and best-TASK/: which evaluation was the best so far, over all tasks and for each, and its model kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manyheads.console import Reporter
from manyheads.inference.evaluate import Evaluation
from manyheads.model.folder import link_folder, save_model
from manyheads.model.multitask import ManyHeads
from manyheads.parts.metrics import better, primary
from manyheads.storage.files import restore_folder
from manyheads.tasks.kind import Calibration
from manyheads.tasks.task import Task
from manyheads.training.datasets import Datasets
from manyheads.training.state import PlainState

OVERALL = ""  # beside tasks' names


@dataclass
class BestModels(PlainState):
    """The best values so far."""

    best: dict[str, dict[str, Any]] = field(default_factory=dict)  # OVERALL or task → {"value", "step"}
    evaluations_without_improvement: int = 0  # since the overall score was last beaten, in this phase

    def update(self, evaluation: Evaluation, tasks: Mapping[str, Task], step: int) -> list[str]:
        """Compare an evaluation with the best so far. Returns what it is now the best for: OVERALL, tasks, or none."""
        beaten = []
        self.evaluations_without_improvement += 1
        overall = self.best.get(OVERALL)
        if overall is None or evaluation.overall > overall["value"]:
            self.best[OVERALL] = {"value": evaluation.overall, "step": step}
            self.evaluations_without_improvement = 0
            beaten.append(OVERALL)
        for name, task in tasks.items():
            value = evaluation.metrics[name][primary(task)]
            if name not in self.best or better(task, value, self.best[name]["value"]):
                self.best[name] = {"value": value, "step": step}
                beaten.append(name)
        return beaten

    def forget_lost(self, folder: Path, reporter: Reporter) -> None:
        """A model folder that was deleted or damaged no longer counts as the best so far."""
        for name in list(self.best):
            model_folder = folder_of(folder, name)
            restore_folder(model_folder)
            if not model_folder.is_dir():
                del self.best[name]
                reporter.say(f"note: {model_folder} is gone; the best from here on takes its place")


def folder_of(run: Path, name: str) -> Path:
    return run / (f"best-{name}" if name else "best")


def save_best(
    run: Path,
    names: list[str],
    model: ManyHeads,
    encoder_folder: Path,
    about: dict[str, Any],
    calibration: Mapping[str, Calibration],
) -> None:
    """Write the model folders; the second and later ones are links to the first one's files."""
    for name in names:
        if name == names[0]:
            save_model(folder_of(run, name), model, encoder_folder, about, calibration)
        else:
            link_folder(folder_of(run, names[0]), folder_of(run, name))


def describe_choice(evaluation: Evaluation, datasets: Datasets) -> str:
    """On which examples the best models are chosen, and by what."""
    split = "dev" if datasets.selects_on_dev else "held-out train"
    counts = []
    for name, count in evaluation.examples.items():
        counts.append(f"{name} {count:,} of {len(datasets.selection[name]):,}")
    return f"{split} examples: {', '.join(counts)}; best/ by the overall score, best-TASK/ by the task's primary metric"
