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
RAW, AVERAGED = "raw", "averaged"  # which weights a candidate has: as trained, or averaged over steps


@dataclass
class BestModels(PlainState):
    """The best values so far."""

    # OVERALL or task → {"value", "step"}, and "weights" where there are averaged ones
    best: dict[str, dict[str, Any]] = field(default_factory=dict)
    evaluations_without_improvement: int = 0  # since the overall score was last beaten, in this phase

    def update(self, candidates: Mapping[str, Evaluation], tasks: Mapping[str, Task], step: int) -> dict[str, str]:
        """Compare the candidates of one evaluation with the best so far, and with each other: of equal ones the first.

        `candidates`: weights → their evaluation. Returns what has a new best, OVERALL or tasks → which weights that is.
        """
        beaten: dict[str, str] = {}
        self.evaluations_without_improvement += 1
        for weights, evaluation in candidates.items():
            for name, value in self._improved(evaluation, tasks).items():
                self.best[name] = {"value": value, "step": step}
                if len(candidates) > 1:
                    self.best[name]["weights"] = weights
                beaten[name] = weights
        if OVERALL in beaten:
            self.evaluations_without_improvement = 0
        return beaten

    def _improved(self, evaluation: Evaluation, tasks: Mapping[str, Task]) -> dict[str, float | None]:
        """What an evaluation is better for than the best so far, OVERALL first, and the value there."""
        improved: dict[str, float | None] = {}
        overall = self.best.get(OVERALL)
        if overall is None or evaluation.overall > overall["value"]:
            improved[OVERALL] = evaluation.overall
        for name, task in tasks.items():
            value = evaluation.metrics[name][primary(task)]
            if name not in self.best or better(task, value, self.best[name]["value"]):
                improved[name] = value
        return improved

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
