"""A token-level kind as a user would bring it in a file of their own: a tag for every word between spaces.

`tests/test_word_tags.py` trains it by `imports:`. Nothing in the package knows of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from manyheads import register
from manyheads.data.labels import BadLabel, LabelReader, split_classes
from manyheads.parts.kinds import Classification
from manyheads.storage.ragged import Ragged
from manyheads.tasks.kind import LabelDeclaration, LabelStatistics

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("kinds", "word-tags")
class WordTags(Classification):
    """A tag for every word, from a cell such as 'D N V'."""

    name = "word-tags"
    called = "a tagging of words"
    per_word = True
    pooling = "words"
    figures: ClassVar[tuple[str, ...]] = ()

    def recognise(self, labels: set[str], declared: LabelDeclaration) -> int:
        return 0  # a recipe says `kind: word-tags`

    def make_reader(self, labels: set[str], declared: LabelDeclaration) -> LabelReader:
        tags: set[str] = set()
        for label in labels:
            tags.update(split_classes(label, " "))
        return self.read_classes(tags, declared, " ")

    def read_label(self, label: str, reader: LabelReader) -> Any:
        tags = split_classes(label, " ")
        if not tags:
            raise BadLabel("no tags")
        return [reader.class_index(tag) for tag in tags]

    def unlabelled(self, rows: int, reader: LabelReader) -> Any:
        return Ragged.from_rows([[]] * rows, np.int64)

    def statistics(self, labels: Any, reader: LabelReader, scale: str) -> LabelStatistics:
        return super().statistics(labels.values, reader, scale)

    def default_loss(self, reader: LabelReader) -> str:
        return "cross-entropy"

    def default_metrics(self, task: Task) -> tuple[str, ...]:
        return ("accuracy", "macro-f1")

    def describe(self, predictions: Any, task: Task) -> list[dict[str, Any]]:
        described: list[dict[str, Any]] = []
        for probabilities in predictions:  # [words, tags] of each example
            described.append({"prediction": [task.labels.names[tag] for tag in self.decode(probabilities, task)]})
        return described

    def as_text(self, prediction: Any, task: Task) -> str:
        return " ".join(prediction)

    def plain_loss(self, predictions: Any, labels: Any, task: Task) -> float:
        return super().plain_loss(predictions.values, labels.values, task)

    def summary(self, task: Task) -> str:
        return f"{sum(task.counts):,} words with {len(task.labels.names)} tags"

    def label_text(self, value: Any, task: Task) -> str:
        return " ".join(task.labels.names[tag] for tag in value)
