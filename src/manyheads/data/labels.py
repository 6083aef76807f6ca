"""Labels as a file writes them → class indices or numbers. What the file does not say is seen from train's labels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["classification", "ordinal", "multi-label", "regression"]
CLASSES: tuple[Kind, ...] = (
    "classification",
    "ordinal",
)  # exactly one class is right; ordinal: the classes are in order
BETWEEN = "\x1f"  # stands before each class of a row, where the file has a list of them
FAULT = "\x1e"  # stands before what is wrong with a label that was not even read
NONE = "[]"  # a row of a multi-label task with none of the classes
SEPARATORS = ("|", ";", ",")  # what may stand between classes in a cell of text, most telling first
YES = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
MOST_CLASSES = 1000  # more distinct labels than this are surely not classes


class BadLabel(ValueError):
    """One row's label cannot be used; the message says why."""


def normalise(value: Any) -> str:
    """One spelling per label: 1, 1.0, '1.0' and ' 1 ' are '1', True and 'True' are 'true', missing values are ''."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    word = str(value).strip()
    if word.lower() == "nan":  # how pandas writes a missing value
        return ""
    if word.lower() in ("true", "false"):
        return word.lower()
    number = as_number(word)
    return str(int(number)) if number is not None and number.is_integer() and abs(number) < 1e15 else word


def as_number(word: str) -> float | None:
    """The number a word stands for, if it is a finite one."""
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in word else None  # Python reads '1_2' as 12


def as_list(classes: Iterable[str]) -> str:
    """A row's list of classes as one word, which differs from any word that a cell of text holds."""
    return "".join(BETWEEN + one for one in classes) or NONE


@dataclass(frozen=True)
class LabelReader:
    """Turns a normalised label into a class index, class indices or a number, or says what is wrong with it."""

    kind: Kind
    names: tuple[str, ...] = ()  # class names in order; empty for regression
    values: dict[str, int] = field(default_factory=dict)  # label as in the file → class index
    range: tuple[float, float] | None = None
    separator: str | None = None  # of a multi-label task: what stands between classes in a cell

    @property
    def called(self) -> str:
        """'a classification', for messages."""
        words = {"ordinal": "an ordinal classification", "multi-label": "a multi-label classification"}
        return words.get(self.kind, f"a {self.kind}")

    def read(self, label: str) -> float:
        """The class index, or the number."""
        if not label:
            raise BadLabel("no label")
        if label[0] == FAULT:
            raise BadLabel(label[1:])
        if BETWEEN in label or label == NONE:
            raise BadLabel(f"a list of labels in a {self.kind} task")
        if self.kind != "regression":
            return self._index(label)
        number = as_number(label)
        if number is None:
            raise BadLabel(f"label '{label}' is not a number")
        if self.range and not self.range[0] <= number <= self.range[1]:
            raise BadLabel(f"label {label} is outside the range {self.range[0]:g} to {self.range[1]:g}")
        return number

    def read_several(self, label: str) -> list[int]:
        """The indices of a multi-label row's classes."""
        if not label:
            raise BadLabel(f"no label (write {NONE} for a row with none of the classes)")
        if label[0] == FAULT:
            raise BadLabel(label[1:])
        return [self._index(one) for one in split_classes(label, self.separator)]

    def _index(self, label: str) -> int:
        index = self.values.get(label)
        if index is None:
            known = list(self.values)
            more = ", …" if len(known) > 12 else ""
            raise BadLabel(f"label '{label}' is not one of {', '.join(known[:12])}{more}")
        return index


def split_classes(label: str, separator: str | None) -> list[str]:
    """The classes of one row of a multi-label task: a list as the file has it, or a cell cut at the separator."""
    if label == NONE:
        return []
    words = label.split(BETWEEN) if BETWEEN in label or not separator else label.split(separator)
    return [word for word in map(normalise, words) if word]


def infer_reader(
    found: Iterable[str],
    kind: Kind | None,
    labels: list[str] | dict[str, str] | None,
    range: tuple[float, float] | None,
    separator: str | None = None,
) -> LabelReader:
    """What was declared, completed by the labels found in train. A ValueError says what to declare instead."""
    if kind is None and range is not None:
        kind = "regression"
    found = set() if kind == "regression" else {label for label in found if label}  # numbers may be millions
    if kind is None:
        kind = _guess_kind(found, labels)
    if kind == "regression":
        if labels is not None:
            raise ValueError("'labels' names classes, but this task is a regression; remove it or set its 'kind'")
        return LabelReader(kind, range=range)
    if range is not None:
        raise ValueError(f"'range' belongs to regression, this task is a {kind}; remove it or set its 'kind'")
    if kind == "multi-label":
        cells = [label for label in found if BETWEEN not in label]  # lists need no separator
        separator = separator or next((one for one in SEPARATORS if any(one in cell for cell in cells)), None)
        found = {one for label in found for one in split_classes(label, separator)}
    elif separator is not None:
        raise ValueError(
            f"'separator' belongs to multi-label tasks, this task is a {kind}; remove it or set its 'kind'"
        )
    if labels is None:
        if kind == "ordinal" and any(as_number(label) is None for label in found):
            raise ValueError("the classes of an ordinal task are in order, and words have none; list them in 'labels'")
        labels = _in_order(found)
    values = dict(zip(labels, labels, strict=True)) if isinstance(labels, list) else labels
    names = tuple(dict.fromkeys(values.values()))  # several values may map to one class
    if len(names) < (1 if kind == "multi-label" else 2):
        raise ValueError(f"a {kind} needs at least two classes, found {list(names)}")
    if len(names) > MOST_CLASSES:
        raise ValueError(f"{len(names)} different labels are too many for classes; is this the label column?")
    return LabelReader(kind, names, {value: names.index(name) for value, name in values.items()}, separator=separator)


def _guess_kind(found: set[str], labels: list[str] | dict[str, str] | None) -> Kind:
    if any(BETWEEN in label or label == NONE for label in found):
        return "multi-label"
    if labels is not None:
        return "classification"
    fraction = min((word for word in found if not (as_number(word) or 0.0).is_integer()), default=None)
    other = min((word for word in found if as_number(word) is None), default=None)
    if fraction and other:
        raise ValueError(f"label '{fraction}' looks like a regression, but '{other}' is not a number; set its 'kind'")
    return "regression" if fraction else "classification"


def _in_order(labels: set[str]) -> list[str]:
    numeric = all(as_number(label) is not None for label in labels)
    return sorted(labels, key=lambda label: (as_number(label) or 0.0, label) if numeric else (0.0, label))
