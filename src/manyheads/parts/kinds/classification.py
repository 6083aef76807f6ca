"""Exactly one class is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from manyheads.data.labels import BadLabel, LabelReader, LabelType, is_list
from manyheads.parts.kinds.calibration import apply_temperature, fit_temperature
from manyheads.parts.kinds.classes import KindWithClasses, clip_probabilities
from manyheads.registry import register
from manyheads.tasks.kind import Calibration, LabelDeclaration, LabelStatistics

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("kinds", "classification", paper="all")
class Classification(KindWithClasses):
    """Exactly one class is right; classes are in no order.

    Labels: class indices [examples]. Predictions: probabilities [examples, classes] that add up to 1.
    Relations: `ordinal` knows that its classes are in order; in `multi-label` any number of classes may be right.
    """

    name = "classification"
    called = "a classification"
    label_type: ClassVar[LabelType] = "class"
    problem_type: ClassVar[str | None] = "single_label_classification"
    figures: ClassVar[tuple[str, ...]] = ("confusion", "calibration", "per-class")
    calibration_metrics: ClassVar[tuple[str, ...]] = ("calibration-error",)

    def recognise(self, labels: set[str], declared: LabelDeclaration) -> int:
        return 1  # what nothing else recognises

    def make_reader(self, labels: set[str], declared: LabelDeclaration) -> LabelReader:
        if declared.separator is not None:
            raise ValueError(
                f"'separator' belongs to multi-label tasks, this task is {self.called}; remove it or set its 'kind'"
            )
        return self.read_classes(labels, declared)

    def read_label(self, label: str, reader: LabelReader) -> int:
        if not label:
            raise BadLabel("no label")
        if is_list(label):
            raise BadLabel(f"a list of labels in {self.called} task")
        return reader.class_index(label)

    def unlabelled(self, rows: int, reader: LabelReader) -> np.ndarray:
        return np.full(rows, -1, dtype=np.int64)

    def statistics(self, labels: np.ndarray, reader: LabelReader, scale: str) -> LabelStatistics:
        return LabelStatistics(counts=tuple(np.bincount(labels, minlength=len(reader.names)).tolist()))

    def default_loss(self, reader: LabelReader) -> str:
        return "binary-cross-entropy" if len(reader.names) == 2 else "cross-entropy"

    def default_metrics(self, task: Task) -> tuple[str, ...]:
        if len(task.labels.names) == 2:
            return ("accuracy", "f1", "precision", "recall", "auc", "average-precision", "calibration-error")
        return ("accuracy", "macro-f1", "calibration-error")

    def reads_similarity(self, task: Task) -> bool:
        return len(task.labels.names) == 2

    def activate(self, outputs: Any) -> Any:
        return outputs.softmax(dim=-1)

    def decode(self, predictions: np.ndarray, task: Task) -> np.ndarray:
        return predictions.argmax(axis=1)

    def describe(self, predictions: np.ndarray, task: Task) -> list[dict[str, Any]]:
        described = []
        for row in predictions:
            probabilities = dict(zip(task.labels.names, map(float, row), strict=True))
            best = task.labels.names[int(row.argmax())]
            described.append(
                {"prediction": best, "probability": probabilities[best], "probabilities": probabilities},
            )
        return described

    def plain_loss(self, predictions: np.ndarray, labels: np.ndarray, task: Task) -> float:
        """Mean −log p of the right class."""
        probabilities = clip_probabilities(predictions)
        return float(-np.log(probabilities[np.arange(len(labels)), labels]).mean())

    def fit_calibration(self, predictions: np.ndarray, labels: np.ndarray, task: Task) -> Calibration:
        return {"temperature": fit_temperature(predictions, labels)}

    def calibrate(self, predictions: np.ndarray, task: Task) -> np.ndarray:
        return apply_temperature(predictions, task.temperature)

    def soften(self, predictions: np.ndarray, temperature: float) -> np.ndarray:
        """p_c^(1/T) / Σ_k p_k^(1/T)"""
        return apply_temperature(predictions, temperature)

    def constant_prediction(self, labels: np.ndarray, task: Task) -> np.ndarray:
        """The share of each class: the most frequent one is predicted."""
        return np.bincount(labels, minlength=len(task.labels.names)) / len(labels)

    def label_text(self, value: Any, task: Task) -> str:
        return task.labels.names[int(value)]
