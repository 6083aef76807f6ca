"""The trained model's answers, in few and full encoder passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from manyheads.files import write_text
from manyheads.model import Inputs, ManyHeads, TaskTokens
from manyheads.tasks import Task


@torch.no_grad()
def predict_rows(
    model: ManyHeads,
    data: TaskTokens,
    tokens_per_pass: int,
    rows: np.ndarray | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """Class probabilities [rows, classes] or values in label units [rows], in the order of `rows` (default: all)."""
    chosen = np.arange(len(data)) if rows is None else rows
    name = data.task.name
    was_training = model.training
    model.eval()
    answers: np.ndarray | None = None
    done = 0
    for places, inputs in _passes(model, data, chosen, tokens_per_pass):
        outputs = model([(name, inputs)])[0]
        found = model.head(name).loss.predict(outputs.float()).cpu().numpy()
        if answers is None:
            answers = np.empty((len(chosen), *found.shape[1:]), dtype=found.dtype)
        answers[places] = found
        done += len(places)
        progress(done)
    model.train(was_training)
    if answers is None:
        return np.empty(0)
    return answers * data.task.unit + data.task.offset if data.task.kind == "regression" else answers


def _passes(
    model: ManyHeads, data: TaskTokens, rows: np.ndarray, tokens_per_pass: int
) -> Iterator[tuple[list[int], Inputs]]:
    """Examples of like length together, as many as fit: long runs of equal length make attention cheap."""
    lengths = sum(column.lengths[rows] for column in data.texts)
    places: list[int] = []
    inputs: Inputs = []
    used = 0
    for place in np.argsort(lengths, kind="stable").tolist():
        example = model.inputs(data.task.name, data.texts, int(rows[place]))
        size = sum(len(one.ids) for one in example)
        if used and used + size > tokens_per_pass:
            yield places, inputs
            places, inputs, used = [], [], 0
        places.append(place)
        inputs.append(example)
        used += size
    if places:
        yield places, inputs


def describe(task: Task, answers: np.ndarray) -> list[dict[str, Any]]:
    """Answers in the user's own words: class name with the probability of every class, or a value."""
    if task.kind == "regression":
        return [{"prediction": float(value)} for value in answers]
    names = task.labels.names
    return [
        {
            "prediction": names[int(row.argmax())],
            "probability": float(row.max()),
            "probabilities": dict(zip(names, map(float, row), strict=True)),
        }
        for row in answers
    ]


def write_predictions(folder: Path, data: TaskTokens, split: str, answers: np.ndarray) -> Path:
    """One file per task and split: id and prediction, in the format that the task asks for."""
    task, style = data.task, data.task.predictions
    values = [str(one["prediction"]) for one in describe(task, answers)]
    ids = data.examples.ids.to_pylist()
    if style.format == "course":
        lines = [f"id \t {style.column} ", *(f"{i} , {value} " for i, value in zip(ids, values, strict=True))]
    else:
        lines = [f"id,{style.column}", *(f"{_quote(i)},{_quote(v)}" for i, v in zip(ids, values, strict=True))]
    file = folder / style.file.format(task=task.name, split=split)
    write_text(file, "\n".join(lines) + "\n")
    return file


def _quote(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if any(mark in cell for mark in ',"\n\r') else cell
