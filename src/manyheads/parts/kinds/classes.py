"""What all kinds with classes share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manyheads.config.label_text import as_number
from manyheads.data.labels import LabelReader
from manyheads.parts.kinds.calibration import SMALLEST_PROBABILITY
from manyheads.tasks.kind import Kind, LabelDeclaration

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

MOST_CLASSES = 1000  # more distinct labels than this are surely not classes
SHOWN_CLASSES = 12


class KindWithClasses(Kind):
    """Labels are names of classes."""

    least_classes = 2

    def outputs(self, task: Task) -> int:
        return len(task.labels.names)

    def read_classes(self, labels: set[str], declared: LabelDeclaration, separator: str | None = None) -> LabelReader:
        """The classes as declared, else those of train."""
        if declared.range is not None:
            raise ValueError(f"'range' belongs to regression, this task is {self.called}; remove it or set its 'kind'")
        class_of = declared.labels
        if class_of is None:
            class_of = self.order_classes(labels)
        if isinstance(class_of, list):
            class_of = dict(zip(class_of, class_of, strict=True))
        names = tuple(dict.fromkeys(class_of.values()))  # several values may map to one class
        if len(names) < self.least_classes:
            raise ValueError(f"{self.called} needs at least two classes, found {list(names)}")
        if len(names) > MOST_CLASSES:
            raise ValueError(f"{len(names)} different labels are too many for classes; is this the label column?")
        values = {value: names.index(name) for value, name in class_of.items()}
        return LabelReader(self.name, names, values, separator=separator)

    def order_classes(self, labels: set[str]) -> list[str]:
        """Numbers by value, words by the alphabet."""
        numbers = {label: as_number(label) for label in labels}
        if None in numbers.values():
            return sorted(labels)
        return sorted(labels, key=lambda label: (numbers[label] or 0.0, label))

    def why_not_taught_by(self, teacher: Task, task: Task) -> str | None:
        reason = super().why_not_taught_by(teacher, task)
        if reason is not None:
            return reason
        lacks = [name for name in task.labels.names if name not in teacher.labels.names]
        has_besides = [name for name in teacher.labels.names if name not in task.labels.names]
        if lacks:
            return f"it has no class {_named(lacks)} there"
        if has_besides:
            return f"it has the class {_named(has_besides)} there, which it has not here"
        return None

    def taught_by(self, predictions: np.ndarray, teacher: Task, task: Task) -> np.ndarray:
        return predictions[:, [teacher.labels.names.index(name) for name in task.labels.names]]

    def summary(self, task: Task) -> str:
        shares = []
        for name, count in zip(task.labels.names, task.counts, strict=True):
            shares.append(f"{name} {count / max(1, task.train_examples):.0%}")
        more = ""
        if len(shares) > SHOWN_CLASSES:
            more = f", … {len(shares) - SHOWN_CLASSES} more"
        return f"{self.name}, {len(shares)} classes: {', '.join(shares[:SHOWN_CLASSES])}{more}"


def _named(classes: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in classes[:SHOWN_CLASSES])
    return f"{shown}, …" if len(classes) > SHOWN_CLASSES else shown


def clip_probabilities(predictions: np.ndarray) -> np.ndarray:
    return np.clip(predictions.astype(np.float64), SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
