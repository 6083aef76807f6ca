"""Errors of tags by kind, with their texts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from building import SINGLE, a_task
from manyheads.data.labels import LabelReader
from manyheads.data.tags import Entity
from manyheads.reports.tagged_words import (
    TaggedWords,
    compare_entities,
    confused_tags,
    count_confusions,
    find_errors,
    marked_text,
)
from manyheads.storage.ragged import Ragged

NAMES = ("O", "B-x", "I-x", "B-y", "I-y")
READER = LabelReader("tags", NAMES, {name: index for index, name in enumerate(NAMES)}, scheme="BIO")


def test_errors_of_a_sentence_by_kind() -> None:
    labelled = [Entity(0, 2, "x"), Entity(3, 4, "y"), Entity(5, 6, "x"), Entity(8, 9, "y")]
    predicted = [Entity(0, 1, "x"), Entity(3, 4, "x"), Entity(6, 8, "y"), Entity(8, 9, "y")]
    assert compare_entities(labelled, predicted) == [
        ("boundary", labelled[0], predicted[0]),
        ("type", labelled[1], predicted[1]),
        ("invented", None, predicted[2]),
        ("missed", labelled[2], None),
    ]


def tagged(texts: list[str], labels: list[list[int]], predicted: list[list[int]], sure: float = 0.8) -> TaggedWords:
    task = replace(a_task(labels=READER), columns=replace(SINGLE, words="edges"))
    probabilities = [np.where(np.eye(5)[row] == 1, sure, (1 - sure) / 4) for row in predicted]
    column = Ragged.from_rows(probabilities, np.float64)
    return TaggedWords(task, column, Ragged.from_rows(labels, np.int64), [(text,) for text in texts])


def test_texts_are_marked_around_an_error() -> None:
    words = tagged(["Ann Cole flew", "to Oslo."], [[1, 2, 0], [0, 3, 0]], [[1, 0, 0], [0, 1, 0]])
    errors = find_errors(words)
    assert [(error.kind, error.row, error.confidence) for error in errors] == [("boundary", 0, 0.8), ("type", 1, 0.8)]
    assert [marked_text(words, error) for error in errors] == ["[⟨Ann⟩ Cole] flew", "to [⟨Oslo⟩]."]
    assert count_confusions(words, errors) == {("x", "x"): 1, ("y", "x"): 1}
    assert confused_tags(words) == {("I-x", "O"): 1, ("B-y", "B-x"): 1}
    words.texts = [("other words than there were",)] * 2
    assert marked_text(words, errors[0]) == "", "the text has changed"
