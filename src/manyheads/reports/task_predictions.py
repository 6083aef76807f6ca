"""A task's predictions on dev beside its labels, and what each kind of task makes of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from manyheads.tasks.task import Task


@dataclass
class TaskPredictions:
    """What a run predicts for a task's labelled dev examples."""

    task: Task
    predictions: np.ndarray  # [rows, classes] probabilities, or [rows] values
    labels: np.ndarray
    texts: list[tuple[str, ...]] = field(default_factory=list)  # empty where dev's texts are gone
    ids: list[str] = field(default_factory=list)

    # what the task's kind says of its labels

    @property
    def is_regression(self) -> bool:
        return not self.task.kind.has_classes

    @property
    def is_multi_label(self) -> bool:
        return self.task.kind.has_classes and not self.task.kind.exclusive

    @property
    def is_ordinal(self) -> bool:
        return self.task.kind.ordered

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.task.labels.names

    @property
    def predicted_labels(self) -> np.ndarray:
        """The predicted class or value of each example; for a multi-label task 0 or 1 for each class."""
        return self.task.kind.decode(self.predictions, self.task)

    @property
    def correct_classes(self) -> np.ndarray:
        """[rows] how many classes are predicted correctly: 0 or 1, except for a multi-label task."""
        matches = self.predicted_labels == self.labels
        return matches.reshape(len(self.labels), -1).sum(axis=1)

    @property
    def closeness(self) -> np.ndarray:
        """[rows] the probability of the label, or minus the distance from it."""
        if self.is_regression:
            return -np.abs(self.predictions - self.labels)
        if self.is_multi_label:
            return np.where(self.labels == 1, self.predictions, 1 - self.predictions).mean(axis=1)
        return self.predictions[np.arange(len(self.labels)), self.labels]

    @property
    def value_range(self) -> tuple[float, float]:
        """A regression's smallest and largest label."""
        return self.task.bounds or (float(self.labels.min()), float(self.labels.max()))

    def has_class(self, class_index: int) -> np.ndarray:
        """[rows] whether the label is, or contains, this class."""
        if self.labels.ndim == 2:
            return self.labels[:, class_index] == 1
        return self.labels == class_index

    def predicts_class(self, class_index: int) -> np.ndarray:
        """[rows] whether the prediction is, or contains, this class."""
        predicted = self.predicted_labels
        if predicted.ndim == 2:
            return predicted[:, class_index] == 1
        return predicted == class_index

    def label_text(self, label: np.ndarray | float) -> str:
        """A label or a predicted label as people read it."""
        if self.is_regression:
            return f"{float(label):.2f}"
        if self.is_multi_label:
            marked = zip(self.class_names, np.atleast_1d(label), strict=True)
            return ", ".join(name for name, present in marked if present) or "none"
        return self.class_names[int(label)]
