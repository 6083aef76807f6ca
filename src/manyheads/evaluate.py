"""Metrics of a model on its tasks' dev data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from manyheads.metrics import overall, score
from manyheads.model import ManyHeads, TaskTokens
from manyheads.predict import predict_rows
from manyheads.seeding import generator


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
    tokens_per_pass: int,
    rows: dict[str, np.ndarray] | None = None,
    progress: Callable[[str, int], None] = lambda task, done: None,
) -> tuple[Evaluation, dict[str, np.ndarray]]:
    """Evaluate every task (on some of its rows); also returns the predictions."""
    metrics: dict[str, dict[str, float | None]] = {}
    answers: dict[str, np.ndarray] = {}
    counts: dict[str, int] = {}
    for name, split in data.items():
        chosen = np.arange(len(split)) if rows is None else rows[name]
        found = predict_rows(model, split, tokens_per_pass, chosen, lambda done, name=name: progress(name, done))  # type: ignore[misc]
        assert split.examples.labels is not None
        metrics[name] = score(split.task.kind, found, split.examples.labels[chosen])
        answers[name], counts[name] = found, len(chosen)
    kinds = {name: split.task.kind for name, split in data.items()}
    return Evaluation(metrics, overall(metrics, kinds), counts), answers


def fixed_subset(size: int, at_most: int | None, seed: int, task: str) -> np.ndarray:
    """The rows of dev used while training: the same at every evaluation."""
    if at_most is None or size <= at_most:
        return np.arange(size)
    return np.sort(generator(seed, "evaluate", task).permutation(size)[:at_most])
