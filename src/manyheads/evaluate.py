"""Metrics of a model on its tasks' dev data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from manyheads.metrics import overall, score
from manyheads.model import ManyHeads, TaskTokens
from manyheads.predict import predict_tasks
from manyheads.seeding import generator
from manyheads.training_settings import EvaluateSettings


@dataclass(frozen=True)
class Evaluation:
    """Metrics per task and over all, and on how many examples they stand."""

    metrics: dict[str, dict[str, float | None]]
    overall: float
    examples: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def evaluate_model(
    model: ManyHeads,
    data: dict[str, TaskTokens],
    settings: EvaluateSettings,
    rows: dict[str, np.ndarray] | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[Evaluation, dict[str, np.ndarray]]:
    """Evaluate every task on its labelled rows, or on some of them; also returns the predictions."""
    chosen = rows or {name: np.flatnonzero(split.examples.labelled) for name, split in data.items()}
    answers = predict_tasks(model, data, settings.tokens_per_pass, chosen, progress)
    metrics = {}
    for name, split in data.items():
        assert split.examples.labels is not None
        metrics[name] = score(split.task, answers[name], split.examples.labels[chosen[name]])
    tasks = {name: split.task for name, split in data.items()}
    total = overall(metrics, tasks, settings.overall, settings.weights)
    return Evaluation(metrics, total, {name: len(some) for name, some in chosen.items()}), answers


def fixed_subset(data: TaskTokens, at_most: int | None, seed: int) -> np.ndarray:
    """The rows of dev used while training: the same at every evaluation, and for tasks that read the same rows."""
    rows = generator(seed, "evaluate", data.rows or data.task.name).permutation(len(data))
    return np.sort(rows[data.examples.labelled[rows]][:at_most])
