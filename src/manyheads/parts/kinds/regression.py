"""Labels are numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from manyheads.config.label_text import as_number
from manyheads.data.labels import BadLabel, LabelReader, LabelType, is_list
from manyheads.registry import register
from manyheads.tasks.kind import Kind, LabelDeclaration, LabelStatistics

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("kinds", "regression", paper="all")
class Regression(Kind):
    """Labels are numbers, within a declared `range` or any.

    Labels and predictions: numbers in the labels' own units [examples]. The loss sees (label − offset) / unit.
    Relations: `ordinal` where only a few values occur and each is a class.
    """

    name = "regression"
    called = "a regression"
    label_type: ClassVar[LabelType] = "number"
    problem_type: ClassVar[str | None] = "regression"
    has_range = True
    needs_labels = False
    has_classes = False
    exclusive = False
    figures: ClassVar[tuple[str, ...]] = ("scatter", "residuals")

    def recognise(self, labels: set[str], declared: LabelDeclaration) -> int:
        if declared.range is not None:
            return 4
        if declared.labels is not None:
            return 0
        fractions = []
        words = []
        for label in labels:
            number = as_number(label)
            if number is None:
                words.append(label)
            elif not number.is_integer():
                fractions.append(label)
        if not fractions:
            return 0
        if any(map(is_list, words)):
            return 0
        if words:
            raise ValueError(
                f"label '{min(fractions)}' looks like a regression, but '{min(words)}' is not a number; set its 'kind'"
            )
        return 2

    def make_reader(self, labels: set[str], declared: LabelDeclaration) -> LabelReader:
        if declared.labels is not None:
            raise ValueError("'labels' names classes, but this task is a regression; remove it or set its 'kind'")
        return LabelReader(self.name, range=declared.range)

    def read_label(self, label: str, reader: LabelReader) -> float:
        if not label:
            raise BadLabel("no label")
        if is_list(label):
            raise BadLabel("a list of labels in a regression task")
        number = as_number(label)
        if number is None:
            raise BadLabel(f"label '{label}' is not a number")
        if reader.range and not reader.range[0] <= number <= reader.range[1]:
            raise BadLabel(f"label {label} is outside the range {reader.range[0]:g} to {reader.range[1]:g}")
        return number

    def unlabelled(self, rows: int, reader: LabelReader) -> np.ndarray:
        return np.full(rows, np.nan)

    def statistics(self, labels: np.ndarray, reader: LabelReader, scale: str) -> LabelStatistics:
        low, high = reader.range or (float(labels.min()), float(labels.max()))
        if low == high:
            high = low + 1.0
        offset, unit = self._scale(labels, low, high, scale)
        return LabelStatistics(bounds=(low, high), offset=offset, unit=unit)

    def _scale(self, labels: np.ndarray, low: float, high: float, scale: str) -> tuple[float, float]:
        """(offset, unit). On the standard scale the loss starts at 1, the size of the other tasks' losses: raw scores
        of 0 to 5 would drown them."""
        if scale == "raw":
            return 0.0, 1.0
        if scale == "unit":
            return low, high - low
        mean, deviation = float(labels.mean()), float(labels.std())
        if deviation <= 1e-9 * max(1.0, abs(mean)):  # equal labels differ by rounding only
            return mean, 1.0
        return mean, deviation

    def targets(self, labels: np.ndarray, task: Task) -> np.ndarray:
        return (labels - task.offset) / task.unit

    def default_loss(self, reader: LabelReader) -> str:
        return "mse"

    def default_metrics(self, task: Task) -> tuple[str, ...]:
        return ("pearson", "spearman", "mse", "mae", "within")

    def reads_similarity(self, task: Task) -> bool:
        return True

    def outputs(self, task: Task) -> int:
        return 1

    def activate(self, outputs: Any) -> Any:
        return outputs[:, 0]

    def in_label_units(self, predictions: np.ndarray, task: Task) -> np.ndarray:
        return predictions * task.unit + task.offset

    def decode(self, predictions: np.ndarray, task: Task) -> np.ndarray:
        return predictions

    def describe(self, predictions: np.ndarray, task: Task) -> list[dict[str, Any]]:
        """min(max(x, lo), hi) where the recipe declares lo and hi, which no label is beyond. Metrics see x itself."""
        if task.labels.range is not None:
            within = np.clip(predictions, *task.labels.range)
            predictions = np.where(np.isfinite(predictions), within, predictions)  # a broken model still shows
        return [{"prediction": float(value)} for value in predictions]

    def plain_loss(self, predictions: np.ndarray, labels: np.ndarray, task: Task) -> float:
        """Mean squared error on the scale that the loss sees."""
        return float((((predictions - labels) / task.unit) ** 2).mean())

    def why_not_taught_by(self, teacher: Task, task: Task) -> str | None:
        reason = super().why_not_taught_by(teacher, task)
        theirs, ours = teacher.labels.range, task.labels.range
        if reason is None and theirs is not None and ours is not None and theirs != ours:
            return f"its labels go from {theirs[0]:g} to {theirs[1]:g} there and from {ours[0]:g} to {ours[1]:g} here"
        return reason

    def constant_prediction(self, labels: np.ndarray, task: Task) -> np.ndarray:
        return np.asarray(labels.mean())

    def summary(self, task: Task) -> str:
        low, high = task.bounds or (0.0, 1.0)
        return f"regression from {low:g} to {high:g}"

    def label_text(self, value: Any, task: Task) -> str:
        return f"{float(value):g}"
