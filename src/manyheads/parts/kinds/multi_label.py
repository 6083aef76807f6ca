"""Any number of classes may be right."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from manyheads.data.labels import NONE, SEPARATORS, BadLabel, LabelReader, LabelType, is_list, split_classes
from manyheads.parts.kinds.calibration import THRESHOLD, apply_temperature, fit_thresholds
from manyheads.parts.kinds.classes import KindWithClasses, clip_probabilities
from manyheads.registry import register
from manyheads.tasks.kind import Calibration, LabelDeclaration, LabelStatistics

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("kinds", "multi-label")
class MultiLabel(KindWithClasses):
    """Any number of classes may be right, none included.

    Labels: 0 or 1 [examples, classes]. Predictions: a probability for each class on its own [examples, classes]; a
    class is predicted from its threshold on: 0.5, or what was fitted (see `evaluate.calibrate`).
    Relations: `classification` where exactly one class is right.
    """

    name = "multi-label"
    called = "a multi-label classification"
    label_type: ClassVar[LabelType] = "class set"
    problem_type: ClassVar[str | None] = "multi_label_classification"
    label_columns = True
    exclusive = False
    least_classes = 1
    figures: ClassVar[tuple[str, ...]] = ("per-class", "calibration")
    calibration_metrics: ClassVar[tuple[str, ...]] = ("macro-f1", "micro-f1")

    def recognise(self, labels: set[str], declared: LabelDeclaration) -> int:
        return 3 if any(map(is_list, labels)) else 0

    def make_reader(self, labels: set[str], declared: LabelDeclaration) -> LabelReader:
        separator = declared.separator or self._seen_separator(labels)
        classes: set[str] = set()
        for label in labels:
            classes.update(split_classes(label, separator))
        return self.read_classes(classes, declared, separator)

    def _seen_separator(self, labels: set[str]) -> str | None:
        for separator in SEPARATORS:
            for label in labels:
                if separator in label and not is_list(label):  # lists need no separator
                    return separator
        return None

    def read_label(self, label: str, reader: LabelReader) -> np.ndarray:
        if not label:
            raise BadLabel(f"no label (write {NONE} for a row with none of the classes)")
        value = np.zeros(len(reader.names), dtype=np.int64)
        for class_name in split_classes(label, reader.separator):
            value[reader.class_index(class_name)] = 1
        return value

    def unlabelled(self, rows: int, reader: LabelReader) -> np.ndarray:
        return np.full((rows, len(reader.names)), -1, dtype=np.int64)

    def statistics(self, labels: np.ndarray, reader: LabelReader, scale: str) -> LabelStatistics:
        return LabelStatistics(counts=tuple(labels.sum(axis=0).tolist()))

    def default_loss(self, reader: LabelReader) -> str:
        return "binary-cross-entropy"

    def default_metrics(self, task: Task) -> tuple[str, ...]:
        return ("macro-f1", "micro-f1", "average-precision", "exact-match")

    def reads_similarity(self, task: Task) -> bool:
        return False

    def activate(self, outputs: Any) -> Any:
        return outputs.sigmoid()

    def decode(self, predictions: np.ndarray, task: Task) -> np.ndarray:
        # an array, because float32 beside a plain number is compared in float32
        thresholds = np.array(task.thresholds or [THRESHOLD] * len(task.labels.names), dtype=np.float64)
        return (predictions >= thresholds).astype(int)

    def describe(self, predictions: np.ndarray, task: Task) -> list[dict[str, Any]]:
        described = []
        for row, decoded in zip(predictions, self.decode(predictions, task), strict=True):
            probabilities = dict(zip(task.labels.names, map(float, row), strict=True))
            present = [task.labels.names[index] for index in np.flatnonzero(decoded)]
            described.append({"prediction": present, "probabilities": probabilities})
        return described

    def as_text(self, prediction: Any, task: Task) -> str:
        """The classes as the task's own files have them."""
        separator = task.labels.separator or "|"
        if any(separator in name for name in task.labels.names):
            return json.dumps(prediction, ensure_ascii=False)
        return separator.join(prediction) or NONE

    def plain_loss(self, predictions: np.ndarray, labels: np.ndarray, task: Task) -> float:
        """Mean binary cross-entropy over examples and classes."""
        probabilities = clip_probabilities(predictions)
        return float(-(labels * np.log(probabilities) + (1 - labels) * np.log(1 - probabilities)).mean())

    def fit_calibration(self, predictions: np.ndarray, labels: np.ndarray, task: Task) -> Calibration:
        return {"thresholds": fit_thresholds(predictions, labels)}

    def soften(self, predictions: np.ndarray, temperature: float) -> np.ndarray:
        """σ(log(p/(1 − p)) / T) of each class on its own: with 1 − p, two classes of which one is right."""
        both = np.stack([1 - predictions, predictions], axis=-1)
        softened = apply_temperature(both.reshape(-1, 2), temperature)[:, 1]
        return softened.reshape(predictions.shape)

    def constant_prediction(self, labels: np.ndarray, task: Task) -> np.ndarray:
        """How often each class is right."""
        return labels.mean(axis=0)

    def label_text(self, value: Any, task: Task) -> str:
        return ", ".join(name for name, present in zip(task.labels.names, value, strict=True) if present) or "none"
