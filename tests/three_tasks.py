"""Three small tasks on the toy encoder, without files: classes, yes or no, numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from building import CLASSES, NUMBERS, TWO, a_task, columns, toy_model
from manyheads.model.multitask import ManyHeads
from manyheads.parts.samplers import Batch
from manyheads.tasks.task import Task

NAMES = ["a", "b", "c"]
ROUND = [Batch("a", np.array([0, 1, 2])), Batch("b", np.array([3, 4])), Batch("c", np.array([1, 5, 0, 2]))]
Setting = tuple[ManyHeads, dict[str, Any]]


class Rows:
    """What the model needs of a task's data, without files."""

    def __init__(self, model: ManyHeads, task: str, labels: list[float]) -> None:
        self.task, self.row_group, self.frozen = model.tasks[task], None, None
        self.texts = columns(model, len(self.task.columns.text))
        kind = torch.float64 if self.task.kind.name == "regression" else torch.long
        self.labels = torch.tensor(labels, dtype=kind)
        self.label_places = None

    def inputs(self, model: ManyHeads, row: int) -> Any:
        return model.inputs(self.task.name, self.texts, row)


def setting(folder: Path, tasks: list[Task] | None = None, double: bool = True, **encoder: Any) -> Setting:
    chosen = tasks or [
        a_task(name="a", labels=CLASSES),
        a_task(name="b", labels=TWO),
        a_task(name="c", labels=NUMBERS),
    ]
    model = toy_model(folder, chosen, **encoder)
    model = model.double() if double else model
    values = {"a": [0, 2, 1, 0, 1, 2], "b": [0, 1, 1, 0, 1, 1], "c": [0.3, -1.0, 1.5, 0.0, 0.7, -0.4]}
    data = {
        task.name: Rows(model, task.name, values["c" if task.kind.name == "regression" else task.name])
        for task in chosen
    }
    return model, data
