"""The end of a run: the best model on all of dev and, for the first time, on test; their predictions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.config.part import PartConfig
from manyheads.config.recipe import Recipe
from manyheads.console import Reporter
from manyheads.inference.calibration import calibrate
from manyheads.inference.dev_examples import write_dev_examples
from manyheads.inference.evaluate import measure, plain_loss
from manyheads.inference.predict import predict_tasks
from manyheads.inference.prediction_files import write_dev_predictions, write_predictions
from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.metrics import primary, score
from manyheads.runs.log import RunLog
from manyheads.runs.run import evaluate_with_progress
from manyheads.storage.ragged import Column
from manyheads.tasks.task import Task
from manyheads.training.datasets import Datasets, of_model


class DevPredictions:
    """What best/ predicted when it was evaluated on dev: where that was all of dev, it need not predict again."""

    def __init__(self) -> None:
        self._latest: dict[str, Column] | None = None
        self._of_best: dict[str, Column] | None = None

    def note(self, predictions: dict[str, Column]) -> None:
        """Those of the evaluation that was just made."""
        self._latest = predictions

    def keep(self, are_of_best: bool) -> None:
        """best/ was written; `are_of_best`: of the weights that were evaluated last."""
        self._of_best = self._latest if are_of_best else None

    def of_best(self, datasets: Datasets) -> dict[str, Column] | None:
        """None where dev was not looked at, or in part; where states were cached, which round otherwise; and in a
        resumed run until best/ is beaten."""
        if self._of_best is None or not datasets.selects_on_dev:
            return None
        for name, data in datasets.dev.items():
            if data.frozen is not None or len(self._of_best[name]) != len(data.examples.labelled_rows):
                return None
        return self._of_best


def predict_dev(
    model: ManyHeads,
    folder: Path,
    datasets: Datasets,
    recipe: Recipe,
    reporter: Reporter,
    own_predictions: dict[str, Column] | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write the model's predictions of all of dev; return its metrics, and what its calibration did to them.

    `own_predictions`: before calibration, where they are known already.
    """
    if own_predictions is None:  # the datasets' tasks are not calibrated
        _, own_predictions = evaluate_with_progress(model, datasets.dev, recipe, reporter)
    dev = of_model(datasets.dev, model)
    rows: dict[str, np.ndarray] = {}
    predictions: dict[str, Column] = {}
    calibrations: dict[str, Any] = {}
    for name, data in dev.items():
        rows[name] = data.examples.labelled_rows
        predictions[name] = calibrate(data.task, own_predictions[name])
        write_predictions(folder / "predictions", data, "dev", predictions[name], rows[name])
        if recipe.evaluate.calibrate and data.task.kind.calibration_metrics:
            labels, own_task = data.labels_of(rows[name]), datasets.dev[name].task
            calibrations[name] = {
                **_fitted_values(data.task),
                "before": _calibration_metrics(own_task, own_predictions[name], labels),
                "after": _calibration_metrics(data.task, predictions[name], labels),
            }
    write_dev_predictions(folder / "dev.safetensors", dev, predictions)
    write_dev_examples(folder, dev)
    return measure(dev, rows, predictions, recipe.evaluate).to_json(), calibrations


def _fitted_values(task: Task) -> dict[str, Any]:
    if task.thresholds:
        return {"thresholds": dict(zip(task.labels.names, task.thresholds, strict=True))}
    return {"temperature": task.temperature}


def _calibration_metrics(task: Task, predictions: Column, labels: Column) -> dict[str, float | None]:
    """What tells whether a calibration helps."""
    metrics = tuple(PartConfig(name=name) for name in task.kind.calibration_metrics)
    return {"loss": plain_loss(task, predictions, labels), **score(replace(task, metrics=metrics), predictions, labels)}


def predict_test(
    model: ManyHeads, folder: Path, datasets: Datasets, recipe: Recipe, reporter: Reporter
) -> dict[str, Any]:
    """Write the model's predictions of test, and return its metrics where test has labels; empty where it has none.

    Nothing else reads test: no model, threshold or epoch is chosen on it.
    """
    test = of_model(datasets.test, model)
    predictions = predict_tasks(model, test, recipe.evaluate.tokens_per_pass)
    labelled: dict[str, TaskTokens] = {}
    rows: dict[str, np.ndarray] = {}
    labelled_predictions: dict[str, Column] = {}
    for name, data in test.items():
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


def figures_before_training(log: RunLog, datasets: Datasets) -> dict[str, Any]:
    """What metrics.json has of the time before the first step, on dev: `frozen`, what a linear model on the frozen
    encoder scored, where the heads were probed; and `before`, what the untrained model did, where dev was looked at."""
    figures: dict[str, Any] = {}
    for record in log.records():
        if record["event"] == "probe":
            figures.setdefault("frozen", record["dev"])
        if record["event"] == "evaluate" and record["step"] == 0 and datasets.selects_on_dev:
            figures.setdefault("before", {key: record[key] for key in ("metrics", "overall", "examples")})
    return figures
