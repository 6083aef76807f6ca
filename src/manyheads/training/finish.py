"""The end of a run: the best model on all of dev, predictions, metrics.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from manyheads.config.recipe import Recipe
from manyheads.console import Reporter
from manyheads.inference.dev_examples import write_dev_examples
from manyheads.inference.evaluate import Evaluation
from manyheads.inference.predict import predict_tasks
from manyheads.inference.prediction_files import write_dev_predictions, write_predictions
from manyheads.model.multitask import ManyHeads
from manyheads.runs.log import RunLog
from manyheads.runs.run import evaluate_with_progress
from manyheads.training.datasets import Datasets


def predict_splits(
    model: ManyHeads, folder: Path, datasets: Datasets, recipe: Recipe, reporter: Reporter
) -> Evaluation:
    """Write the model's predictions of dev and test, and return its metrics on all of dev."""
    evaluation, predictions = evaluate_with_progress(model, datasets.dev, recipe, reporter)
    for name, data in datasets.dev.items():
        rows = np.flatnonzero(data.examples.labelled)
        write_predictions(folder / "predictions", data, "dev", predictions[name], rows)
    write_dev_predictions(folder / "dev.safetensors", datasets.dev, predictions)
    write_dev_examples(folder, datasets.dev)
    tested = predict_tasks(model, datasets.test, recipe.evaluate.tokens_per_pass)
    for name, test_predictions in tested.items():
        write_predictions(folder / "predictions", datasets.test[name], "test", test_predictions)
    return evaluation


def evaluation_before_training(log: RunLog) -> dict[str, Any] | None:
    for record in log.records():
        if record["event"] == "evaluate" and record["step"] == 0:
            return {key: record[key] for key in ("metrics", "overall", "examples")}
    return None
