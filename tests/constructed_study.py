"""Results that nothing was trained for, imported into a study: its page in seconds, with numbers that a test chose."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.parts.metrics import primary, score
from manyheads.studies.study import OpenStudy
from manyheads.studies.variants import PlannedRun
from manyheads.tasks.load import TaskData, load_tasks
from manyheads.tasks.task import Task

Predict = Callable[[PlannedRun, Task, np.ndarray], np.ndarray]  # run, task, dev labels → predictions
EPOCHS = 3
CLASS_SHARE = 0.7  # of examples that are predicted as they are labelled


def construct_results(
    opened: OpenStudy,
    folder: Path,
    rows: Collection[str] = (),
    kept: Collection[str] = ("history", "pca"),
    predict: Predict | None = None,
) -> None:
    """Write an export of results and import it: of these rows, or all; with history and embeddings, or without.

    Predictions are those of `predict`, by default the same for every row. Their calibration has errors of .2 before and
    .1 after, and .01 more with every seed.
    """
    lines: dict[str, dict[str, Any]] = {}
    loaded = load_tasks(opened.base)
    for identity, planned in opened.runs:
        if rows and planned.row not in rows:
            continue
        record = _record(identity, planned, loaded, predict or _predict_alike)
        for name in planned.recipe.tasks:
            dev = loaded[name].dev
            lines[f"dev {name}"] = {"dev": f"dev{name}", "ids": list(dev.ids), "labels": dev.labels.tolist()}
        for key in ("history", "pca"):
            if key not in kept:
                del record[key]
        lines[identity] = {"run": record}
    file = folder / "constructed.jsonl.gz"
    text = "\n".join(map(json.dumps, lines.values()))
    file.write_bytes(gzip.compress(text.encode()))
    opened.folder.results.import_file(file)


def expected_metric(row: str, seed: int, epoch: int) -> float:
    """The primary metric on dev that a constructed history has: it differs by row, seed and epoch."""
    return round((len(row) % 7) / 100 + seed / 10 + epoch / 5, 6)


def _record(identity: str, planned: PlannedRun, loaded: Mapping[str, TaskData], predict: Predict) -> dict[str, Any]:
    tasks = {name: loaded[name].task for name in planned.recipe.tasks}
    predictions: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    pca: dict[str, Any] = {}
    for name, task in tasks.items():
        labels = loaded[name].dev.labels
        predictions[name] = predict(planned, task, labels)
        metrics[name] = score(task, predictions[name], labels)
        points = np.column_stack([np.arange(len(labels)), np.arange(len(labels)) ** 2])
        pca[name] = {"points": points.tolist(), "labels": labels.tolist(), "explained": [0.4, 0.25]}
    return {
        "identity": identity,
        "seed": planned.seed,
        "tasks": {name: task.to_json() for name, task in tasks.items()},
        "dev": {name: f"dev{name}" for name in tasks},
        "metrics": metrics,
        "overall": 0.5,
        "seconds": 60.0,
        "gigabytes": 1.0,
        "steps": 10,
        "examples_seen": dict.fromkeys(tasks, 100),
        "predictions": {name: values.tolist() for name, values in predictions.items()},
        "history": [_entry(planned, tasks, epoch) for epoch in range(1, EPOCHS + 1)],
        "pca": pca,
        "calibration": {name: _calibration(planned.seed) for name, task in tasks.items() if task.kind.exclusive},
    }


def _calibration(seed: int) -> dict[str, Any]:
    before = {"loss": 0.6, "calibration-error": 0.2 + seed / 100}
    return {"temperature": 1.5, "before": before, "after": {"loss": 0.5, "calibration-error": 0.1 + seed / 100}}


def _predict_alike(planned: PlannedRun, task: Task, labels: np.ndarray) -> np.ndarray:
    draws = np.random.default_rng(planned.seed)
    if not task.kind.has_classes:
        return labels + draws.normal(size=len(labels))
    classes = len(task.labels.names)
    predictions = np.full((len(labels), classes), 0.1)
    chosen = np.where(draws.random(len(labels)) < CLASS_SHARE, labels, draws.integers(classes, size=len(labels)))
    predictions[np.arange(len(labels)), chosen] = 0.9
    return predictions / predictions.sum(axis=1, keepdims=True)


def _entry(planned: PlannedRun, tasks: Mapping[str, Task], epoch: int) -> dict[str, Any]:
    value = expected_metric(planned.row, planned.seed, epoch)
    return {
        "step": 5 * epoch,
        "epoch": epoch,
        "overall": value,
        "metrics": {name: {primary(task): value} for name, task in tasks.items()},
        "losses": dict.fromkeys(tasks, 2 - value),
        "train": {name: {primary(task): value + 0.05} for name, task in tasks.items()},
    }
