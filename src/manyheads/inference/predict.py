"""The trained model's answers, in few and full encoder passes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from manyheads.data.labels import NONE
from manyheads.model.multitask import Inputs, ManyHeads, TaskTokens, evaluating
from manyheads.storage.files import write_text
from manyheads.tasks.task import Task
from manyheads.tokens.budget import split_by_tokens
from manyheads.tokens.packing import Sequence, merge_equal

Example = list[tuple[str, int, list[Sequence]]]  # a row as each of its tasks reads it: (task, place, inputs)


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
    return predictions * task.unit + task.offset if task.kind == "regression" else predictions


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

    def examples() -> Iterator[Example]:
        for row in every[np.argsort(lengths, kind="stable")].tolist():
            wanted = [name for name in data if row in places[name]]
            made = {reading[name]: data[name] for name in wanted}
            sequences = {way: split.inputs(model, row) for way, split in made.items()}
            yield [(name, places[name][row], sequences[reading[name]]) for name in wanted]

    for passing in split_by_tokens(examples(), _tokens, tokens_per_pass):
        asked: dict[str, tuple[list[int], Inputs]] = {}
        for example in passing:
            for name, place, inputs in example:
                own = asked.setdefault(name, ([], []))
                own[0].append(place)
                own[1].append(inputs)
        yield [(name, *one) for name, one in asked.items()]


def _tokens(example: Example) -> int:
    """How much of a pass a row takes: what several tasks read alike is encoded once."""
    given = [one for _, _, inputs in example for one in inputs]
    distinct = given if given[0].states is not None else merge_equal(given, everywhere=True)[0]
    return sum(len(one.ids) if one.states is None else len(one.states) for one in distinct)


def _reading(model: ManyHeads, split: TaskTokens) -> tuple[object, ...]:
    """Equal where two tasks make the same inputs of the same texts."""
    name = split.task.name
    encoding = model.tasks[split.task.head_of or name].encoding
    return encoding.model_dump_json(), model.head(name).pooling.positions_needed, split.frozen and name


def describe(task: Task, predictions: np.ndarray) -> list[dict[str, Any]]:
    """Answers in the user's own words: class name, or names, with the probability of every class; or a value."""
    if task.kind == "regression":
        return [{"prediction": float(value)} for value in predictions]
    names = task.labels.names
    found: list[dict[str, Any]] = []
    for row in predictions:
        chances = dict(zip(names, map(float, row), strict=True))
        if task.kind == "multi-label":
            found.append({"prediction": [name for name in names if chances[name] >= 0.5], "probabilities": chances})
        else:
            best = names[int(row.argmax())]
            found.append({"prediction": best, "probability": chances[best], "probabilities": chances})
    return found


def as_text(task: Task, prediction: Any) -> str:
    """A prediction as a cell of a file: the classes of a multi-label task as its own files have them."""
    if isinstance(prediction, list):
        between = task.labels.separator or "|"
        if any(between in name for name in task.labels.names):
            return json.dumps(prediction, ensure_ascii=False)
        return between.join(prediction) or NONE
    return str(prediction)


def write_predictions(
    folder: Path, data: TaskTokens, split: str, predictions: np.ndarray, rows: np.ndarray | None = None
) -> Path:
    """One file per task and split: id and prediction, in the format that the task asks for."""
    task, style = data.task, data.task.predictions
    values = [as_text(task, one["prediction"]) for one in describe(task, predictions)]
    ids = (data.examples.ids if rows is None else data.examples.ids.take(rows)).to_pylist()
    if style.format == "course":
        lines = [f"id \t {style.column} ", *(f"{i} , {value} " for i, value in zip(ids, values, strict=True))]
    else:
        lines = [f"id,{style.column}", *(f"{_quote(i)},{_quote(v)}" for i, v in zip(ids, values, strict=True))]
    file = folder / style.file.format(task=task.name, split=split)
    write_text(file, "\n".join(lines) + "\n")
    return file


def write_dev_predictions(file: Path, dev: dict[str, TaskTokens], predictions: dict[str, np.ndarray]) -> None:
    """What every task answered on its labelled dev rows, and their labels, as numbers."""
    from safetensors.numpy import save_file

    tensors: dict[str, np.ndarray] = {}
    for name, data in dev.items():
        rows = np.flatnonzero(data.examples.labelled)
        assert data.examples.labels is not None
        tensors |= {f"{name}.answers": predictions[name], f"{name}.labels": data.examples.labels[rows]}
    save_file({name: np.ascontiguousarray(one) for name, one in tensors.items()}, file)


def _quote(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if any(mark in cell for mark in ',"\n\r') else cell
