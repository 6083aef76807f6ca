"""What a prediction scores that knows no text: the majority class, the classes' base rates, the mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyheads.config.recipe import Recipe
from manyheads.inference.calibration import calibrate, fit_calibration
from manyheads.inference.evaluate import measure, with_calibration
from manyheads.model.task_tokens import TaskTokens
from manyheads.storage.ragged import Column, Ragged
from manyheads.training.datasets import Datasets


def majority_baseline(datasets: Datasets, recipe: Recipe) -> dict[str, Any]:
    """The best constant prediction of each task, made of train's labels and measured on all of dev, as an evaluation.

    It is calibrated as the model is: thresholds that maximise F1 let a constant predict rare classes too.
    Without the overall score where a kind has no constant prediction.
    """
    data: dict[str, TaskTokens] = {}
    rows: dict[str, np.ndarray] = {}
    predictions: dict[str, Column] = {}
    for name, dev in datasets.dev.items():
        row = _constant_row(datasets.train[name])
        if row is None:
            continue
        if recipe.evaluate.calibrate:
            labels = datasets.selection[name].labels_of(datasets.selection_rows[name])
            fitted = fit_calibration(dev.task, _repeated(row, labels), labels)
            dev = with_calibration({name: dev}, {name: fitted})[name]
        data[name], rows[name] = dev, dev.examples.labelled_rows
        predictions[name] = calibrate(dev.task, _repeated(row, dev.labels_of(rows[name])))
    if len(data) == len(datasets.dev):
        return measure(data, rows, predictions, recipe.evaluate).to_json()
    unweighted = recipe.evaluate.model_copy(update={"weights": {}})  # those that are left may all weigh nothing
    content = measure(data, rows, predictions, unweighted).to_json() if data else {}
    content.pop("overall", None)
    return content


def _constant_row(train: TaskTokens) -> np.ndarray | None:
    labels = train.labels_of(train.examples.labelled_rows)
    if isinstance(labels, Ragged):
        labels = labels.values
    return train.task.kind.constant_prediction(labels, train.task)


def _repeated(row: np.ndarray, labels: Column) -> Column:
    """A prediction for every example, or for every word, that has a label."""
    if isinstance(labels, Ragged):
        return Ragged(np.repeat(row[None], len(labels.values), axis=0), labels.starts)
    return np.repeat(row[None], len(labels), axis=0)
