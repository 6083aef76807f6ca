"""The trained model's answers, in few and full encoder passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from manyheads.model.multitask import Inputs, ManyHeads, TaskTokens, evaluating
from manyheads.storage.csv_text import csv_text
from manyheads.storage.files import write_text
from manyheads.tasks.task import Task
from manyheads.tokens.packing import merge_equal


@torch.no_grad()
def predict_tasks(
    model: ManyHeads,
    data: dict[str, TaskTokens],
    tokens_per_pass: int,
    rows: dict[str, np.ndarray] | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, np.ndarray]:
    """Class probabilities [rows, classes] or values in label units [rows] of each task, in the order of its `rows`
    (default: all). Tasks that read the same texts are answered from one encoder pass."""
    chosen = rows or {name: np.arange(len(split)) for name, split in data.items()}
    found: dict[str, np.ndarray] = {}
    done = 0
    with evaluating(model):
        for names in _same_texts(data):
            for asked in _passes(model, {name: data[name] for name in names}, chosen, tokens_per_pass):
                outputs = model([(name, inputs) for name, _, inputs in asked])
                for (name, places, _), output in zip(asked, outputs, strict=True):
                    prediction = model.head(name).loss.predict(output.float()).cpu().numpy()
                    if name not in found:
                        found[name] = np.empty((len(chosen[name]), *prediction.shape[1:]), dtype=prediction.dtype)
                    found[name][places] = prediction
                    done += len(places)
                progress(done)
    return {name: _in_label_units(split.task, found.get(name, np.empty(0))) for name, split in data.items()}


def _in_label_units(task: Task, predictions: np.ndarray) -> np.ndarray:
    return task.kind.in_label_units(predictions, task)


def _same_texts(data: dict[str, TaskTokens]) -> list[list[str]]:
    """Tasks that one pass can answer: they read the same texts, as tokens or as kept states of the same layer."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for name, split in data.items():
        texts = tuple(column.fingerprint or id(column) for column in split.texts)
        start = split.frozen and (split.frozen.layer, split.frozen.whole)
        groups.setdefault((texts, start), []).append(name)
    return list(groups.values())


def _passes(
    model: ManyHeads, data: dict[str, TaskTokens], rows: dict[str, np.ndarray], tokens_per_pass: int
) -> Iterator[list[tuple[str, list[int], Inputs]]]:
    """Examples of like length together, as many as fit: long runs of equal length make attention cheap.

    Yields (task, places in its `rows`, their inputs) for tasks that read the same texts; what is equal is encoded once.
    """
    places = {name: dict(zip(rows[name].tolist(), range(len(rows[name])), strict=True)) for name in data}
    every = np.unique(np.concatenate([rows[name] for name in data])).astype(np.int64)
    lengths = sum(column.lengths_of(every) for column in next(iter(data.values())).texts)
    reading = {name: _reading(model, split) for name, split in data.items()}
    asked: dict[str, tuple[list[int], Inputs]] = {}
    used = 0
    for row in every[np.argsort(lengths, kind="stable")].tolist():
        wanted = [name for name in data if row in places[name]]
        made = {reading[name]: data[name] for name in wanted}
        sequences = {way: split.inputs(model, row) for way, split in made.items()}
        given = [one for some in sequences.values() for one in some]
        distinct = given if given[0].states is not None else merge_equal(given, everywhere=True)[0]
        size = sum(len(one.ids) if one.states is None else len(one.states) for one in distinct)
        if used and used + size > tokens_per_pass:
            yield [(name, *one) for name, one in asked.items()]
            asked, used = {}, 0
        for name in wanted:
            own = asked.setdefault(name, ([], []))
            own[0].append(places[name][row])
            own[1].append(sequences[reading[name]])
        used += size
    if asked:
        yield [(name, *one) for name, one in asked.items()]


def _reading(model: ManyHeads, split: TaskTokens) -> tuple[object, ...]:
    """Equal where two tasks make the same inputs of the same texts."""
    name = split.task.name
    encoding = model.tasks[split.task.head_of or name].encoding
    return encoding.model_dump_json(), model.head(name).pooling.positions_needed, split.frozen and name


def describe(task: Task, predictions: np.ndarray) -> list[dict[str, Any]]:
    """Predictions in the user's own words."""
    return task.kind.describe(predictions, task)


def as_text(task: Task, prediction: Any) -> str:
    """A prediction as a cell of a file."""
    return task.kind.as_text(prediction, task)


def write_predictions(
    folder: Path, data: TaskTokens, split: str, predictions: np.ndarray, rows: np.ndarray | None = None
) -> Path:
    """One file per task and split: id and prediction, in the format that the task asks for."""
    task, style = data.task, data.task.predictions
    ids = data.examples.ids if rows is None else data.examples.ids.take(rows)
    cells: list[tuple[str, str]] = []
    for example_id, described in zip(ids.to_pylist(), describe(task, predictions), strict=True):
        cells.append((example_id, as_text(task, described["prediction"])))
    if style.format == "course":
        lines = [f"id \t {style.column} \n"]
        for example_id, value in cells:
            lines.append(f"{example_id} , {value} \n")
        text = "".join(lines)
    else:
        text = csv_text([("id", style.column), *cells])
    file = folder / style.file.format(task=task.name, split=split)
    write_text(file, text)
    return file


def write_dev_predictions(file: Path, dev: dict[str, TaskTokens], predictions: dict[str, np.ndarray]) -> None:
    """What every task answered on its labelled dev rows, and their labels, as numbers."""
    from safetensors.numpy import save_file

    tensors: dict[str, np.ndarray] = {}
    for name, data in dev.items():
        rows = np.flatnonzero(data.examples.labelled)
        assert data.examples.labels is not None
        tensors |= {f"{name}.predictions": predictions[name], f"{name}.labels": data.examples.labels[rows]}
    save_file({name: np.ascontiguousarray(one) for name, one in tensors.items()}, file)


def read_dev_predictions(file: Path) -> dict[str, np.ndarray]:
    """'TASK.predictions' and 'TASK.labels'; version 0.1 called the former 'TASK.answers'."""
    from safetensors.numpy import load_file

    tensors: dict[str, np.ndarray] = {}
    for name, tensor in load_file(file).items():
        task_name, _, content = name.rpartition(".")
        if content == "answers":
            name = f"{task_name}.predictions"
        tensors[name] = tensor
    return tensors
