"""A model's predictions, in few and full encoder passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from manyheads.inference.both_orders import mean_over_orders
from manyheads.inference.calibration import calibrate
from manyheads.inference.collector import make_collector
from manyheads.inference.search import rank_answers
from manyheads.model.multitask import Inputs, ManyHeads, evaluating
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.losses import Loss
from manyheads.storage.ragged import Column, Ragged
from manyheads.tasks.task import Task
from manyheads.tokens.budget import split_by_tokens
from manyheads.tokens.packing import Sequence, merge_equal


@dataclass
class TaskBatch:
    """Examples of one task in a pass."""

    task: str
    positions: list[int] = field(default_factory=list)  # in the list of rows that are asked for
    inputs: Inputs = field(default_factory=list)


@torch.no_grad()
def predict_tasks(
    model: ManyHeads,
    data: dict[str, TaskTokens],
    tokens_per_pass: int,
    rows: dict[str, np.ndarray] | None = None,
    progress: Callable[[int], None] = lambda completed: None,
) -> dict[str, Column]:
    """Class probabilities [rows, classes] or values in label units [rows] of each task, in the order of its `rows`
    (default: all), or as many of them as a row has words. Tasks that read the same texts share an encoder pass.

    They are calibrated as the tasks of `data` say, which need not be what the model's own tasks say.
    """
    chosen, collectors = {}, {}
    ranked: dict[str, Column] = {}
    for name, split in data.items():
        chosen[name] = np.arange(len(split)) if rows is None else rows[name]
        if split.search is not None:
            ranked[name] = rank_answers(model, split, split.search, chosen[name], tokens_per_pass)
            continue
        collectors[name] = make_collector(split.task, len(chosen[name]))
    unranked = {name: split for name, split in data.items() if name not in ranked}
    for batch, outputs in _run_passes(model, unranked, chosen, tokens_per_pass, model.forward, progress):
        counts = word_counts(batch.inputs)
        predictions = predict_outputs(model.head(batch.task).loss, outputs.float(), counts).cpu().numpy()
        predictions = mean_over_orders(data[batch.task].task, predictions)
        collectors[batch.task].add(batch.positions, predictions, counts)
    results: dict[str, Column] = {}
    for name, split in data.items():
        predicted = ranked[name] if name in ranked else collectors[name].result()
        if split.task.kind.per_token:
            predicted = split.task.kind.read_out(predicted, split.task, split.spans(chosen[name]))
        results[name] = _for_people(split.task, predicted)
    return results


@torch.no_grad()
def collect_features(
    model: ManyHeads,
    data: dict[str, TaskTokens],
    tokens_per_pass: int,
    rows: dict[str, np.ndarray],
    progress: Callable[[int], None] = lambda completed: None,
) -> dict[str, Tensor]:
    """What each task's head reads of its `rows` [rows, features], in their order; of words, those of all rows, of pairs
    those of the file's order."""
    data = {name: split.of(replace(split.task, both_orders=False)) for name, split in data.items()}
    collectors = {name: make_collector(split.task, len(rows[name])) for name, split in data.items()}
    for batch, features in _run_passes(model, data, rows, tokens_per_pass, model.features, progress):
        collectors[batch.task].add(batch.positions, features.float().cpu().numpy(), word_counts(batch.inputs))
    collected = {}
    for name, collector in collectors.items():
        column = collector.result()
        collected[name] = torch.from_numpy(column.values if isinstance(column, Ragged) else column)
    return collected


def _run_passes(
    model: ManyHeads,
    data: dict[str, TaskTokens],
    rows: dict[str, np.ndarray],
    tokens_per_pass: int,
    compute: Callable[[list[tuple[str, Inputs]]], list[Tensor]],
    progress: Callable[[int], None],
) -> Iterator[tuple[TaskBatch, Tensor]]:
    """Each batch of each pass with what is computed of it, without dropout."""
    completed = 0
    with evaluating(model):
        for group in _same_texts(data):
            for batches in plan_passes(model, group, rows, tokens_per_pass):
                results = compute([(batch.task, batch.inputs) for batch in batches])
                for batch, result in zip(batches, results, strict=True):
                    yield batch, result
                    completed += len(batch.positions)
                progress(completed)


def _for_people(task: Task, predictions: Column) -> Column:
    """In the labels' units, and calibrated."""
    return calibrate(task, task.kind.in_label_units(predictions, task))


def predict_outputs(loss: Loss, outputs: Tensor, counts: list[int] | None) -> Tensor:
    """What a loss predicts of outputs; `counts`: the words of each example, where they have outputs of their own."""
    if not loss.reads_sentences:
        return loss.predict(outputs)
    predictions: Tensor = loss.predict(outputs, torch.tensor(counts, device=outputs.device))  # type: ignore[call-arg]
    return predictions


def word_counts(inputs: Inputs) -> list[int] | None:
    """The words of each example, where they have predictions of their own."""
    counts: list[int] = []
    for sequences in inputs:
        own = [len(sequence.words) for sequence in sequences if sequence.words is not None]
        if own:
            counts.append(sum(own))
    return counts or None


def _same_texts(data: dict[str, TaskTokens]) -> list[dict[str, TaskTokens]]:
    """Tasks that can share a pass: they read the same texts, as tokens or as cached states of the same layer."""
    groups: dict[tuple[object, ...], dict[str, TaskTokens]] = {}
    for name, split in data.items():
        texts = tuple(column.fingerprint or id(column) for column in split.texts)
        start = split.frozen and (split.frozen.layer, split.frozen.whole)
        groups.setdefault((texts, start), {})[name] = split
    return list(groups.values())


Readings = dict[str, list[Sequence]]  # the encoder inputs of one row, by task


def plan_passes(
    model: ManyHeads, data: dict[str, TaskTokens], rows: dict[str, np.ndarray], tokens_per_pass: int
) -> Iterator[list[TaskBatch]]:
    """The batches of each pass, for tasks that read the same texts; equal inputs are encoded once.

    Examples of like length go together, as many as fit: long runs of equal length make attention cheap.
    """
    positions = {name: _positions(rows[name]) for name in data}
    examples = _read_rows(model, data, positions, _by_length(data, rows))
    for examples_of_pass in split_by_tokens(examples, _token_count, tokens_per_pass):
        batches: dict[str, TaskBatch] = {}
        for row, readings in examples_of_pass:
            for name, sequences in readings.items():
                batch = batches.setdefault(name, TaskBatch(name))
                batch.positions.append(positions[name][row])
                batch.inputs.append(sequences)
        yield list(batches.values())


def _read_rows(
    model: ManyHeads, data: dict[str, TaskTokens], positions: dict[str, dict[int, int]], ordered_rows: list[int]
) -> Iterator[tuple[int, Readings]]:
    """Each row with its inputs; tasks that read it the same way share them."""
    ways = {name: _reading(model, split) for name, split in data.items()}
    for row in ordered_rows:
        sequences: dict[tuple[object, ...], list[Sequence]] = {}
        readings: Readings = {}
        for name, split in data.items():
            if row not in positions[name]:
                continue
            if ways[name] not in sequences:
                sequences[ways[name]] = split.inputs_to_predict(model, row)
            readings[name] = sequences[ways[name]]
        yield row, readings


def _positions(rows: np.ndarray) -> dict[int, int]:
    return dict(zip(rows.tolist(), range(len(rows)), strict=True))


def _by_length(data: dict[str, TaskTokens], rows: dict[str, np.ndarray]) -> list[int]:
    """The rows that any of the tasks asks for, shortest texts first."""
    every_row = np.unique(np.concatenate([rows[name] for name in data])).astype(np.int64)
    lengths = np.zeros(len(every_row), dtype=np.int64)
    for column in next(iter(data.values())).texts:
        lengths += column.lengths_of(every_row)
    ordered: list[int] = every_row[np.argsort(lengths, kind="stable")].tolist()
    return ordered


def _token_count(example: tuple[int, Readings]) -> int:
    """Tokens that the encoder reads for one row, or states where those are cached."""
    every_sequence: list[Sequence] = []
    for sequences in example[1].values():
        every_sequence += sequences
    if every_sequence[0].states is None:
        every_sequence, _ = merge_equal(every_sequence, everywhere=True)
    count = 0
    seen: set[int] = set()
    for sequence in every_sequence:
        if id(sequence) not in seen:  # tasks that read a row the same way share its sequences
            count += len(sequence.ids) if sequence.states is None else len(sequence.states)
        seen.add(id(sequence))
    return count


def _reading(model: ManyHeads, split: TaskTokens) -> tuple[object, ...]:
    """Equal where two tasks make the same inputs of the same texts, or of the same states."""
    return *way_of_reading(model, split.task), split.frozen and split.task.name


def way_of_reading(model: ManyHeads, task: Task) -> tuple[object, ...]:
    """Equal where two tasks make the same inputs of the same texts."""
    encoding = model.tasks[task.head_of or task.name].encoding
    way_of_words = (task.kind.name, task.columns.words) if task.kind.in_windows else None
    return encoding.model_dump_json(), model.head(task.name).pooling.positions_needed, way_of_words, task.both_orders
