"""What a report is made from: a run folder's recipe, log, metrics, answers on dev, and the texts of dev."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.data.examples import Examples
from manyheads.errors import UserError
from manyheads.metrics import primary
from manyheads.run import Run
from manyheads.task_data import load_tasks
from manyheads.tasks import Task

Records = list[dict[str, Any]]


@dataclass
class TaskAnswers:
    """What a task answered on dev, beside what is right."""

    task: Task
    answers: np.ndarray  # [rows, classes] chances, or [rows] values
    labels: np.ndarray
    texts: list[tuple[str, ...]] = field(default_factory=list)  # nothing where dev's texts are not here any more
    ids: list[str] = field(default_factory=list)

    @property
    def guesses(self) -> np.ndarray:
        """The class or value that is answered; of a multi-label task each class, 0 or 1."""
        if self.task.kind == "regression":
            return self.answers
        return (self.answers >= 0.5).astype(int) if self.task.kind == "multi-label" else self.answers.argmax(axis=1)


class RunFacts:
    """A run folder as a report sees it; a run may still be going on, or have been cut short."""

    def __init__(self, folder: Path) -> None:
        self.run = Run(folder)
        self.folder = folder
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
        saved = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
        return {one["name"]: Task.from_json(one) for one in saved}

    def primary(self, task: str) -> str | None:
        if task in self.tasks:
            return primary(self.tasks[task])
        found = self.events("evaluate")
        return next(iter(found[-1]["metrics"].get(task, {})), None) if found else None

    @cached_property
    def answers(self) -> dict[str, TaskAnswers]:
        """Of every task with labelled dev examples, once the run is finished."""
        from safetensors.numpy import load_file

        file = self.folder / "dev.safetensors"
        if not file.is_file():
            return {}
        tensors = load_file(file)
        found = {}
        for name, task in self.tasks.items():
            if f"{name}.answers" in tensors and len(tensors[f"{name}.labels"]):
                found[name] = TaskAnswers(task, tensors[f"{name}.answers"], tensors[f"{name}.labels"])
        self._add_texts(found)
        return found

    def _add_texts(self, found: dict[str, TaskAnswers]) -> None:
        """Texts are read again from the recipe's files, and only believed if they are what the run saw."""
        try:
            loaded = load_tasks(self.run.recipe)
        except UserError as fault:
            self.notes.append(f"Texts are not shown, because the data cannot be read any more: {fault}")
            return
        for name, one in found.items():
            dev = loaded[name].dev
            if self._changed(name, dev, one):
                self.notes.append(f"Texts of {name} are not shown: its dev data has changed since the run.")
                continue
            rows = np.flatnonzero(dev.labelled)
            columns = [column.take(rows).to_pylist() for column in dev.texts]
            one.texts = list(zip(*columns, strict=True))
            one.ids = dev.ids.take(rows).to_pylist()

    def _changed(self, name: str, dev: Examples, one: TaskAnswers) -> bool:
        labels = dev.labels[dev.labelled] if dev.labels is not None else np.empty(0)
        return len(labels) != len(one.labels) or not np.array_equal(labels, one.labels)
