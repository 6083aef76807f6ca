"""Metrics of a model on its tasks' dev data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from manyheads.config.training import EvaluateSettings
from manyheads.inference.calibration import calibrate, fit_calibration
from manyheads.inference.predict import predict_tasks
from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.metrics import overall, score
from manyheads.seeding import generator
from manyheads.storage.ragged import Column
from manyheads.tasks.kind import Calibration
from manyheads.tasks.task import Task


@dataclass(frozen=True)
class Evaluation:
    """Metrics per task and over all, and on how many examples they stand."""

    metrics: dict[str, dict[str, float | None]]
    overall: float
    examples: dict[str, int]
    losses: dict[str, float] = field(default_factory=dict)  # see `plain_loss`
    calibration: dict[str, Calibration] = field(default_factory=dict)  # what was fitted to these very examples

    def to_json(self) -> dict[str, Any]:
        content = asdict(self)
        del content["calibration"]
        return content


def evaluate_model(
    model: ManyHeads,
    data: dict[str, TaskTokens],
    settings: EvaluateSettings,
    rows: dict[str, np.ndarray] | None = None,
    progress: Callable[[int], None] = lambda completed: None,
    fit: bool = False,
) -> tuple[Evaluation, dict[str, Column]]:
    """Evaluate every task on its labelled rows, or on some of them; also returns the predictions as the tasks of `data`
    say, which know no calibration but their own.

    `fit`: calibrate the tasks on these rows first, and measure what they then predict.
    """
    chosen = rows or {name: np.flatnonzero(split.examples.labelled) for name, split in data.items()}
    predictions = predict_tasks(model, data, settings.tokens_per_pass, chosen, progress)
    if not fit:
        return measure(data, chosen, predictions, settings), predictions
    fitted = {}
    for name, split in data.items():
        fitted[name] = fit_calibration(split.task, predictions[name], split.labels_of(chosen[name]))
    calibrated_data = with_calibration(data, fitted)
    calibrated = {name: calibrate(split.task, predictions[name]) for name, split in calibrated_data.items()}
    evaluation = measure(calibrated_data, chosen, calibrated, settings)
    return replace(evaluation, calibration=fitted), predictions


def with_calibration(data: dict[str, TaskTokens], fitted: Mapping[str, Calibration]) -> dict[str, TaskTokens]:
    """The same data, of tasks that are so calibrated; what is left out stays as it is."""
    return {name: split.of(split.task.with_calibration(fitted.get(name, {}))) for name, split in data.items()}


def measure(
    data: dict[str, TaskTokens],
    rows: dict[str, np.ndarray],
    predictions: Mapping[str, Column],
    settings: EvaluateSettings,
) -> Evaluation:
    """The metrics of predictions of these rows."""
    metrics, losses, examples, tasks = {}, {}, {}, {}
    for name, split in data.items():
        labels = split.labels_of(rows[name])
        metrics[name] = score(split.task, predictions[name], labels)
        losses[name] = plain_loss(split.task, predictions[name], labels)
        examples[name] = len(rows[name])
        tasks[name] = split.task
    total = overall(metrics, tasks, settings.overall, settings.weights)
    return Evaluation(metrics, total, examples, losses)


def plain_loss(task: Task, predictions: Column, labels: Column) -> float:
    """−log of the right class's probability, or the squared error on the scale that the loss sees; mean over examples,
    and over classes where an example may have several.

    The same for every loss a task may train with, so that curves of different runs can be compared.
    """
    if not len(labels):
        return float("nan")
    return task.kind.plain_loss(predictions, labels, task)


def fixed_subset(data: TaskTokens, at_most: int | None, seed: int) -> np.ndarray:
    """The rows of a split used while training: the same at every evaluation, and for tasks that read the same rows."""
    rows = generator(seed, "evaluate", data.row_group or data.task.name).permutation(len(data))
    return np.sort(rows[data.examples.labelled[rows]][:at_most])
