"""The end of a run: the best model on all of dev and, for the first time, on test; their predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from manyheads.config.recipe import Recipe
from manyheads.console import Reporter
from manyheads.inference.dev_examples import write_dev_examples
from manyheads.inference.evaluate import measure
from manyheads.inference.predict import predict_tasks
from manyheads.inference.prediction_files import write_dev_predictions, write_predictions
from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.metrics import primary
from manyheads.runs.log import RunLog
from manyheads.runs.run import evaluate_with_progress
from manyheads.storage.ragged import Column
from manyheads.training.datasets import Datasets


def predict_dev(
    model: ManyHeads, folder: Path, datasets: Datasets, recipe: Recipe, reporter: Reporter
) -> dict[str, Any]:
    """Write the model's predictions of all of dev, and return its metrics."""
    evaluation, predictions = evaluate_with_progress(model, datasets.dev, recipe, reporter)
    for name, data in datasets.dev.items():
        rows = np.flatnonzero(data.examples.labelled)
        write_predictions(folder / "predictions", data, "dev", predictions[name], rows)
    write_dev_predictions(folder / "dev.safetensors", datasets.dev, predictions)
    write_dev_examples(folder, datasets.dev)
    return evaluation.to_json()


def predict_test(
    model: ManyHeads, folder: Path, datasets: Datasets, recipe: Recipe, reporter: Reporter
) -> dict[str, Any]:
    """Write the model's predictions of test, and return its metrics where test has labels; empty where it has none.

    Nothing else reads test: no model, threshold or epoch is chosen on it.
    """
    predictions = predict_tasks(model, datasets.test, recipe.evaluate.tokens_per_pass)
    labelled: dict[str, TaskTokens] = {}
    rows: dict[str, np.ndarray] = {}
    labelled_predictions: dict[str, Column] = {}
    for name, data in datasets.test.items():
        write_predictions(folder / "predictions", data, "test", predictions[name])
        if len(data.examples.labelled_rows):
            labelled[name], rows[name] = data, data.examples.labelled_rows
            labelled_predictions[name] = predictions[name][rows[name]]
    if not labelled:
        return {}
    settings = recipe.evaluate
    of_all_tasks = set(labelled) == set(datasets.dev)
    if not of_all_tasks:  # those that are left may all weigh nothing
        settings = settings.model_copy(update={"weights": {}})
    metrics = measure(labelled, rows, labelled_predictions, settings).to_json()
    if not of_all_tasks:
        del metrics["overall"]  # it would be of other tasks than dev's
    figures = []
    for name, data in labelled.items():
        value = metrics["metrics"][name][primary(data.task)]
        shown = "undefined" if value is None else f"{value:.3f}"
        figures.append(f"{name} {primary(data.task)} {shown} of {len(rows[name]):,}")
    reporter.say(f"test: read once, at the end: {'  '.join(figures)}")
    return metrics


def baseline_of(log: RunLog) -> dict[str, Any] | None:
    """What a linear model on the frozen encoder scored on dev, where the heads were probed."""
    for record in log.records():
        if record["event"] == "probe":
            baseline: dict[str, Any] = record["dev"]
            return baseline
    return None


def evaluation_before_training(log: RunLog) -> dict[str, Any] | None:
    for record in log.records():
        if record["event"] == "evaluate" and record["step"] == 0:
            return {key: record[key] for key in ("metrics", "overall", "examples")}
    return None
