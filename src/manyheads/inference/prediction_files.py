"""Predictions in the user's words, and the files that a run writes of them. Nothing here needs torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.data.labels import NONE
from manyheads.errors import UserError
from manyheads.storage.files import write_text
from manyheads.tasks.task import Task

if TYPE_CHECKING:
    from manyheads.model.task_tokens import TaskTokens


def describe(task: Task, predictions: np.ndarray) -> list[dict[str, Any]]:
    """Predictions in the user's own words: class name, or names, with the probability of every class; or a value."""
    if task.kind == "regression":
        return [{"prediction": float(value)} for value in predictions]
    names = task.labels.names
    described: list[dict[str, Any]] = []
    for row in predictions:
        probabilities = dict(zip(names, map(float, row), strict=True))
        if task.kind == "multi-label":
            classes = [name for name in names if probabilities[name] >= 0.5]
            described.append({"prediction": classes, "probabilities": probabilities})
        else:
            best = names[int(row.argmax())]
            described.append({"prediction": best, "probability": probabilities[best], "probabilities": probabilities})
    return described


def as_text(task: Task, prediction: Any) -> str:
    """A prediction as a cell of a file: the classes of a multi-label task as its own files have them."""
    if isinstance(prediction, list):
        separator = task.labels.separator or "|"
        if any(separator in name for name in task.labels.names):
            return json.dumps(prediction, ensure_ascii=False)
        return separator.join(prediction) or NONE
    return str(prediction)


def write_predictions(
    folder: Path, data: TaskTokens, split: str, predictions: np.ndarray, rows: np.ndarray | None = None
) -> Path:
    """One file per task and split: id and prediction, in the format that the task asks for."""
    task, style = data.task, data.task.predictions
    ids = data.examples.ids
    if rows is not None:
        ids = ids.take(rows)
    course = style.format == "course"  # the lines of the course's starter code
    lines = [f"id \t {style.column} " if course else f"id,{style.column}"]
    for example_id, described in zip(ids.to_pylist(), describe(task, predictions), strict=True):
        value = as_text(task, described["prediction"])
        if course:
            lines.append(f"{example_id} , {value} ")
        else:
            lines.append(f"{_quote(example_id)},{_quote(value)}")
    file = folder / _file_name(task, split)
    write_text(file, "\n".join(lines) + "\n")
    return file


def _file_name(task: Task, split: str) -> str:
    """The task's file name, which cannot lead out of the folder of predictions."""
    name = task.predictions.file.format(task=task.name, split=split)
    if Path(name).name != name or "\\" in name:
        raise UserError(f"task '{task.name}': '{name}' is not the name of a prediction file.", code="unsafe-path")
    return name


def write_dev_predictions(file: Path, dev: dict[str, TaskTokens], predictions: dict[str, np.ndarray]) -> None:
    """What every task predicted on its labelled dev rows, and their labels, as numbers."""
    from safetensors.numpy import save_file

    tensors: dict[str, np.ndarray] = {}
    for name, data in dev.items():
        rows = np.flatnonzero(data.examples.labelled)
        assert data.examples.labels is not None
        tensors[f"{name}.answers"] = np.ascontiguousarray(predictions[name])
        tensors[f"{name}.labels"] = np.ascontiguousarray(data.examples.labels[rows])
    save_file(tensors, file)


def _quote(cell: str) -> str:
    if any(mark in cell for mark in ',"\n\r'):
        return '"' + cell.replace('"', '""') + '"'
    return cell
