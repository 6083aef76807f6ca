"""Labels as a file writes them → the values that a task's kind trains on.

A label is kept as one normalised word until its task's kind is known; `LabelReader` then asks the kind to read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

import numpy as np

from manyheads import registry
from manyheads.config.label_text import normalise
from manyheads.storage.ragged import Column, Ragged

# what one label is; losses and metrics say which of these they can read
LabelType = Literal["class", "ordered class", "class set", "number", "word tags", "candidate", "answer", "match"]

BETWEEN = "\x1f"  # stands before each class of a row, where the file has a list of them
FAULT = "\x1e"  # stands before what is wrong with a label that was not even read
NONE = "[]"  # a row of a multi-label task with none of the classes
SEPARATORS = ("|", ";", ",")  # what may stand between classes in a cell of text, most telling first
YES = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class BadLabel(ValueError):
    """One row's label cannot be used; the message says why."""


class LabelRules(Protocol):
    """The part of a kind that reads labels."""

    def read_label(self, label: str, reader: LabelReader) -> Any: ...

    def unlabelled(self, rows: int, reader: LabelReader) -> Column: ...

    def count_repairs(self, label: str, reader: LabelReader) -> int: ...


@dataclass(frozen=True)
class LabelReader:
    """Turns a normalised label into what its kind trains on, or says what is wrong with it."""

    kind: str
    names: tuple[str, ...] = ()  # class names in order; empty where labels are numbers
    values: dict[str, int] = field(default_factory=dict)  # label as in the file → class index
    range: tuple[float, float] | None = None
    separator: str | None = None  # what stands between the classes in a cell
    scheme: Literal["BIO", "IOB1", "BIOES", "plain"] | None = None  # how the tags of words are written in files
    # how files say which candidate is right
    candidate_labels: Literal["index", "number", "letter", "text"] | None = None
    scores: bool = False  # of texts that match: whether a column has a teacher's scores of the answers

    @property
    def rules(self) -> LabelRules:
        return cast(LabelRules, registry.find("kinds", self.kind).factory())

    def read(self, label: str) -> Any:
        """The label's value: a class index, a 0 or 1 for every class, a number. A BadLabel says what is wrong."""
        if label[:1] == FAULT:
            raise BadLabel(label[1:])
        return self.rules.read_label(label, self)

    def unlabelled(self, rows: int) -> Column:
        """The values of rows that have no label."""
        return self.rules.unlabelled(rows, self)

    def class_index(self, label: str) -> int:
        index = self.values.get(label)
        if index is None:
            separator = self.joining_separator(label)
            if separator is not None:
                advice = "where a row may have several classes, set `kind: multi-label`"
                raise BadLabel(f"label '{label}' is several classes with '{separator}' between them; {advice}")
            known_labels = list(self.values)
            ellipsis = ", …" if len(known_labels) > 12 else ""
            raise BadLabel(f"label '{label}' is not one of {', '.join(known_labels[:12])}{ellipsis}")
        return index

    def joining_separator(self, label: str) -> str | None:
        """What a label has between parts that are all classes by themselves; None where they are not."""
        for separator in SEPARATORS:
            classes = split_classes(label, separator)
            if len(classes) > 1 and all(name in self.values for name in classes):
                return separator
        return None


def is_labelled(labels: Column) -> np.ndarray:
    """[rows] whether a row has a label: class indices are not negative, numbers are not NaN, ragged rows not empty."""
    if isinstance(labels, Ragged):
        return labels.lengths > 0
    first = labels
    if labels.ndim > 1:
        first = labels[:, 0]
    if np.issubdtype(first.dtype, np.floating):
        return ~np.isnan(first)
    return first >= 0


def as_list(classes: Iterable[str]) -> str:
    """A row's list of classes as one word, which differs from any word that a cell of text holds."""
    return "".join(BETWEEN + name for name in classes) or NONE


def is_list(label: str) -> bool:
    """Whether a label came from a list of classes."""
    return BETWEEN in label or label == NONE


def split_classes(label: str, separator: str | None) -> list[str]:
    """The classes of one row: a list as the file has it, or a cell cut at the separator."""
    if label == NONE:
        return []
    if BETWEEN in label or not separator:
        separator = BETWEEN
    return [word for word in map(normalise, label.split(separator)) if word]
