"""Labels as a file writes them → class indices or numbers. What the file does not say is seen from train's labels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["classification", "regression"]
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


@dataclass(frozen=True)
class LabelReader:
    """Turns a normalised label into a class index or a number, or says what is wrong with it."""

    kind: Kind
    names: tuple[str, ...] = ()  # class names in order; empty for regression
    values: dict[str, int] = field(default_factory=dict)  # label as in the file → class index
    range: tuple[float, float] | None = None

    def read(self, label: str) -> float:
        if not label:
            raise BadLabel("no label")
        if self.kind == "classification":
            index = self.values.get(label)
            if index is None:
                known = list(self.values)
                more = ", …" if len(known) > 12 else ""
                raise BadLabel(f"label '{label}' is not one of {', '.join(known[:12])}{more}")
            return index
        number = as_number(label)
        if number is None:
            raise BadLabel(f"label '{label}' is not a number")
        if self.range and not self.range[0] <= number <= self.range[1]:
            raise BadLabel(f"label {label} is outside the range {self.range[0]:g} to {self.range[1]:g}")
        return number


def infer_reader(
    found: Iterable[str],
    kind: Kind | None,
    labels: list[str] | dict[str, str] | None,
    range: tuple[float, float] | None,
) -> LabelReader:
    """What was declared, completed by the labels found in train. A ValueError says what to declare instead."""
    if kind is None:
        kind = "regression" if range is not None else _guess_kind(found) if labels is None else "classification"
    if kind == "regression":
        if labels is not None:
            raise ValueError("'labels' names classes, but this task is a regression; remove it or set its 'kind'")
        return LabelReader(kind, range=range)
    if range is not None:
        raise ValueError("'range' belongs to regression, this task is a classification; remove it or set its 'kind'")
    if labels is None:
        labels = _in_order({label for label in found if label})
    values = dict(zip(labels, labels, strict=True)) if isinstance(labels, list) else labels
    names = tuple(dict.fromkeys(values.values()))  # several values may map to one class
    if len(names) < 2:
        raise ValueError(f"a classification needs at least two classes, found {list(names)}")
    if len(names) > MOST_CLASSES:
        raise ValueError(f"{len(names)} different labels are too many for classes; is this the label column?")
    return LabelReader(kind, names, {value: names.index(name) for value, name in values.items()})


def _guess_kind(found: Iterable[str]) -> Kind:
    words = sorted({label for label in found if label})
    numbers = {word: as_number(word) for word in words}
    fraction = next((word for word, number in numbers.items() if number is not None and not number.is_integer()), None)
    other = next((word for word, number in numbers.items() if number is None), None)
    if fraction and other:
        raise ValueError(f"label '{fraction}' looks like a regression, but '{other}' is not a number; set its 'kind'")
    return "regression" if fraction else "classification"


def _in_order(labels: set[str]) -> list[str]:
    numeric = all(as_number(label) is not None for label in labels)
    return sorted(labels, key=lambda label: (as_number(label) or 0.0, label) if numeric else (0.0, label))
