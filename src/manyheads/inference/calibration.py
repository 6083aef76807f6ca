"""Tasks are calibrated on labelled examples, and predictions by their task's calibration. Nothing here needs torch."""

from __future__ import annotations

import numpy as np

from manyheads.storage.ragged import Column, Ragged
from manyheads.tasks.kind import Calibration
from manyheads.tasks.task import Task


def fit_calibration(task: Task, predictions: Column, labels: Column) -> Calibration:
    """What the task's kind fits; empty where there is no example, or a prediction that is not finite."""
    numbers = predictions.values if isinstance(predictions, Ragged) else predictions
    if not len(labels) or not np.isfinite(numbers).all():
        return {}
    return task.kind.fit_calibration(*task.kind.measured(predictions, labels), task)


def calibrate(task: Task, predictions: Column) -> Column:
    """A model's own predictions → those by the task's calibration."""
    if isinstance(predictions, Ragged) and task.kind.per_word:
        return Ragged(task.kind.calibrate(predictions.values, task), predictions.starts)
    calibrated: Column = task.kind.calibrate(predictions, task)
    return calibrated
