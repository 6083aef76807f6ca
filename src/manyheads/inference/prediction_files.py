"""Predictions in the user's words, and the files that a run writes of them. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.data.dataset import Dataset
from manyheads.data.words import TextWords
from manyheads.errors import UserError
from manyheads.storage.csv_text import csv_text
from manyheads.storage.files import write_text
from manyheads.storage.ragged import Column, Ragged, starts_of
from manyheads.tasks.task import Task

if TYPE_CHECKING:
    from manyheads.model.task_tokens import TaskTokens

LENGTHS = "-lengths"  # ends the name of what says how long a ragged column's rows are


def describe(task: Task, predictions: Column, texts: Sequence[TextWords] = ()) -> list[dict[str, Any]]:
    """Predictions in the user's own words: class name, or names, with the probability of every class; or a value; or
    spans of the texts."""
    if task.kind.ragged:
        return task.kind.describe_words(predictions, task, texts)
    return task.kind.describe(predictions, task)


def describe_rows(task: Task, predictions: Column, examples: Dataset) -> list[dict[str, Any]]:
    """The same of all rows of a dataset."""
    return describe(task, predictions, task.kind.words(examples, task) if task.kind.ragged else ())


def write_predictions(
    folder: Path, data: TaskTokens, split: str, predictions: Column, rows: np.ndarray | None = None
) -> Path:
    """One file per task and split: id and prediction, in the format that the task asks for."""
    task, style = data.task, data.task.predictions
    examples = data.examples if rows is None else data.examples.take(rows)
    cells: list[tuple[str, str]] = []
    described_rows = describe_rows(task, predictions, examples)
    for example_id, described in zip(examples.ids.to_pylist(), described_rows, strict=True):
        cells.append((example_id, task.kind.as_cell(described, task)))
    file = folder / _file_name(task, split)
    if style.format == "course":
        write_text(file, _course_text(style.column, cells))
    else:
        write_text(file, csv_text([("id", style.column), *cells]))
    return file


def _course_text(column: str, cells: list[tuple[str, str]]) -> str:
    """The lines of the course's starter code."""
    lines = [f"id \t {column} \n"]
    for example_id, value in cells:
        lines.append(f"{example_id} , {value} \n")
    return "".join(lines)


def _file_name(task: Task, split: str) -> str:
    """The task's file name, which cannot lead out of the folder of predictions."""
    name = task.predictions.file.format(task=task.name, split=split)
    if Path(name).name != name or "\\" in name:
        raise UserError(f"task '{task.name}': '{name}' is not the name of a prediction file.", code="unsafe-path")
    return name


def write_dev_predictions(file: Path, dev: dict[str, TaskTokens], predictions: dict[str, Column]) -> None:
    """What every task predicted on its labelled dev rows, and their labels, as numbers.

    Of a ragged column 'NAME' has the values end to end, and 'NAME-lengths' how many of them each row has.
    """
    from safetensors.numpy import save_file

    tensors: dict[str, np.ndarray] = {}
    for name, data in dev.items():
        rows = np.flatnonzero(data.examples.labelled)
        assert data.examples.labels is not None
        columns = {"predictions": predictions[name], "labels": data.examples.labels[rows]}
        for content, column in columns.items():
            if isinstance(column, Ragged):
                tensors[f"{name}.{content}{LENGTHS}"] = np.ascontiguousarray(column.lengths)
                column = column.values
            tensors[f"{name}.{content}"] = np.ascontiguousarray(column)
    save_file(tensors, file)


def read_dev_predictions(file: Path) -> dict[str, Column]:
    """'TASK.predictions' and 'TASK.labels'; version 0.1 called the former 'TASK.answers'."""
    from safetensors.numpy import load_file

    tensors: dict[str, Column] = {}
    saved = load_file(file)
    for name, tensor in saved.items():
        if name.endswith(LENGTHS):
            continue
        task_name, _, content = name.rpartition(".")
        if content == "answers":
            name = f"{task_name}.predictions"
        tensors[name] = tensor
        if name + LENGTHS in saved:
            tensors[name] = Ragged(tensor, starts_of(saved[name + LENGTHS]))
    return tensors
