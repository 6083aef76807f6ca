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

    def summary(self, task: Task) -> str:
        shares = []
        for name, count in zip(task.labels.names, task.counts, strict=True):
            shares.append(f"{name} {count / max(1, task.train_examples):.0%}")
        more = ""
        if len(shares) > SHOWN_CLASSES:
            more = f", … {len(shares) - SHOWN_CLASSES} more"
        return f"{self.name}, {len(shares)} classes: {', '.join(shares[:SHOWN_CLASSES])}{more}"


def clip_probabilities(predictions: np.ndarray) -> np.ndarray:
    return np.clip(predictions.astype(np.float64), SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
