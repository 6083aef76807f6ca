"""What a report is made from: a run folder's recipe, log, metrics, answers on dev, and the texts of dev."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError
from manyheads.inference.prediction_files import read_dev_predictions
from manyheads.parts.metrics import primary
from manyheads.runs.run import Run
from manyheads.tasks.load import load_tasks
from manyheads.tasks.task import Task
from manyheads.tokens.tokenizer import Tokenizer

Records = list[dict[str, Any]]


@dataclass
class TaskPredictions:
    """What a task answered on dev, beside what is right."""

    task: Task
    predictions: np.ndarray  # [rows, classes] chances, or [rows] values
    labels: np.ndarray
    texts: list[tuple[str, ...]] = field(default_factory=list)  # nothing where dev's texts are not here any more
    ids: list[str] = field(default_factory=list)

    @property
    def guesses(self) -> np.ndarray:
        """The class or value that is answered; of a multi-label task each class, 0 or 1."""
        if self.task.kind == "regression":
            return self.predictions
        return (
            (self.predictions >= 0.5).astype(int)
            if self.task.kind == "multi-label"
            else self.predictions.argmax(axis=1)
        )


class RunFacts:
    """A run folder as a report sees it; a run may still be going on, or have been cut short."""

    def __init__(self, folder: Path) -> None:
        self.run = Run(folder)
        self.folder = folder
        self.label = self.run.recipe.name  # by which it is told from other runs on a page
        self.notes: list[str] = []  # what the report could not show, and why

    @property
    def name(self) -> str:
        return self.run.recipe.name

    @cached_property
    def log(self) -> Records:
        return self.run.log()

    def events(self, event: str) -> Records:
        return [record for record in self.log if record["event"] == event]

    @cached_property
    def metrics(self) -> dict[str, Any]:
        return self.run.metrics

    @property
    def finished(self) -> bool:
        return bool(self.metrics)

    @cached_property
    def steps(self) -> int:
        """How many steps the run has, or would have."""
        started = self.events("start")
        done = max((record["step"] for record in self.log), default=0)
        return int(started[0].get("steps", done)) if started else done

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """The tasks with nothing left to guess."""
        file = self.folder / "tasks.json"
        try:
            saved = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
            return {one["name"]: Task.from_json(one) for one in saved}
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{file}: damaged: {error}.") from None

    @cached_property
    def batch_sizes(self) -> dict[str, int]:
        """Examples in a batch of each task."""
        recipe, started = self.run.recipe, self.events("start")
        told = started[0].get("batch_sizes", {}) if started else {}
        return {
            name: told.get(name, one.batch_size or recipe.training.batch_size) for name, one in recipe.tasks.items()
        }

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The encoder's; None where the model is not here any more."""
        return self.run.model.tokenizer if (self.folder / "best").is_dir() else None

    def primary(self, task: str) -> str | None:
        if task in self.tasks:
            return primary(self.tasks[task])
        found = self.events("evaluate")
        return next(iter(found[-1]["metrics"].get(task, {})), None) if found else None

    @cached_property
    def tensors(self) -> dict[str, np.ndarray]:
        """'TASK.predictions' and 'TASK.labels' on dev; empty while the run is not finished."""
        file = self.folder / "dev.safetensors"
        if not file.is_file() or not self.finished:  # the last thing that a run writes is its metrics
            return {}
        try:
            return read_dev_predictions(file)
        except Exception as error:  # safetensors raises its own kinds for damaged files
            raise UserError(f"{file}: damaged: {error}. `manyheads evaluate` still reads the model.") from None

    @cached_property
    def predictions(self) -> dict[str, TaskPredictions]:
        """Of every task with labelled dev examples, once the run is finished."""
        tensors = self.tensors
        found = {}
        for name, task in self.tasks.items():
            if f"{name}.predictions" in tensors and len(tensors[f"{name}.labels"]):
                found[name] = TaskPredictions(task, tensors[f"{name}.predictions"], tensors[f"{name}.labels"])
        self.notes += add_texts(found, self.run.recipe)
        return found

    @cached_property
    def beside(self) -> list[RunFacts]:
        """Finished runs in the same folder as this one; those that cannot be read are left out."""
        found = []
        wanted = ("recipe.yaml", "log.jsonl", "metrics.json", "dev.safetensors")
        for folder in sorted(self.folder.resolve().parent.iterdir()):
            if folder != self.folder.resolve() and all((folder / name).is_file() for name in wanted):
                try:
                    one = RunFacts(folder)
                    _ = one.tasks, one.metrics, one.tensors
                    found.append(one)
                except (UserError, ValueError) as fault:
                    self.notes.append(f"The run {folder.name} beside this one cannot be read: {fault}")
        return found

    def same_but_for_the_seed(self, task: str) -> list[np.ndarray]:
        """A task's answers by finished runs beside this one whose recipes differ from its own in the seed alone."""
        wanted = _without_seed(self.run.recipe)
        labels = self.predictions[task].labels
        found = [self.predictions[task].predictions]
        for other in self.beside:
            if other.run.recipe.seed != self.run.recipe.seed and _without_seed(other.run.recipe) == wanted:
                tensors = other.tensors
                if np.array_equal(tensors.get(f"{task}.labels", np.empty(0)), labels):
                    found.append(tensors[f"{task}.predictions"])
        return found


def add_texts(found: dict[str, TaskPredictions], recipe: Recipe) -> list[str]:
    """Texts are read again from the recipe's files, and only believed if they are what the run saw.

    Returns what could not be done, a sentence each.
    """
    try:
        loaded = load_tasks(recipe)
    except UserError as fault:
        return [f"Texts are not shown, because the data cannot be read any more: {fault}"]
    notes = []
    for name, one in found.items():
        dev = loaded[name].dev
        labels = dev.labels[dev.labelled] if dev.labels is not None else np.empty(0)
        if not np.array_equal(labels, one.labels):
            notes.append(f"Texts of {name} are not shown: its dev data has changed since the run.")
            continue
        rows = np.flatnonzero(dev.labelled)
        columns = [column.take(rows).to_pylist() for column in dev.texts]
        one.texts = list(zip(*columns, strict=True))
        one.ids = dev.ids.take(rows).to_pylist()
    return notes


def _without_seed(recipe: Recipe) -> dict[str, Any]:
    return recipe.model_dump(mode="json", exclude={"name", "seed", "output", "description", "report", "trackers"})
