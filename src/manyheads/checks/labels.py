"""How labels are spread, and whether dev's are spread like train's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from manyheads.checks.findings import Finding, Severity, count_finding
from manyheads.checks.split import Split
from manyheads.data.labels import LabelReader
from manyheads.tasks.kind import find_kind

SHOWN_CLASSES = 12
UNBALANCED = 10  # the largest class has so many times the rows of the smallest
SHARES_APART = 0.1  # total variation distance between the class shares of train and dev
MEANS_APART = 0.5  # in standard deviations of train's labels


def read_classes(label: str, reader: LabelReader) -> list[int]:
    """The indices of a row's classes."""
    value = reader.read(label)
    if find_kind(reader.kind).exclusive:
        return [value]
    return np.flatnonzero(value).tolist()


def check_balance(split: Split, reader: LabelReader, train: Split) -> Iterator[Finding]:
    """Of usable rows only."""
    if find_kind(reader.kind).has_classes:
        yield from _check_classes(split, reader, train)
    else:
        yield from _check_numbers(split, train)


def _check_numbers(split: Split, train: Split) -> Iterator[Finding]:
    values = np.array(split.usable_labels, dtype=float)
    train_values = np.array(train.usable_labels, dtype=float)
    count = len(values)
    spread = f"mean {values.mean():.3g}, deviation {values.std():.3g}, {values.min():g} to {values.max():g}"
    yield Finding(split.task, split.name, "balance", "note", count, count, f"Labels of {split.name}: {spread}.")
    if len(train_values) and abs(values.mean() - train_values.mean()) > MEANS_APART * train_values.std():
        in_train = f"{train_values.mean():.3g} in train (deviation {train_values.std():.3g})"
        message = f"Mean label: {in_train}, {values.mean():.3g} in dev."
        yield Finding(split.task, "train/dev", "shift", "warning", count, count, message)


def _check_classes(split: Split, reader: LabelReader, train: Split) -> Iterator[Finding]:
    count = len(split.usable_rows)
    counts = _class_counts(split.usable_labels, reader)
    has_several_classes = not find_kind(reader.kind).exclusive  # then rare classes are usual
    severity: Severity = "note"
    if not has_several_classes and max(counts.values()) > UNBALANCED * min(counts.values()):
        severity = "warning"
    message = f"Labels of {split.name}: {_describe_shares(counts, count)}."
    yield Finding(split.task, split.name, "balance", severity, count, count, message)
    if split is train or not train.usable_rows:
        return
    train_counts = _class_counts(train.usable_labels, reader)
    missing = [name for name, number in train_counts.items() if number and not counts[name]]
    text = f"classes of train {{have}} no row in dev: {', '.join(missing[:SHOWN_CLASSES])}"
    share = (len(missing), len(train_counts))
    yield from count_finding(split.task, f"train/{split.name}", "missing-class", "warning", share, text)
    if not has_several_classes:
        yield from _check_shift(split, counts, train_counts, len(train.usable_rows))


def _describe_shares(counts: dict[str, int], total: int) -> str:
    """'bad 4 (50%), good 4 (50%)'"""
    shares = [f"{name} {number:,} ({number / total:.0%})" for name, number in counts.items()]
    text = ", ".join(shares[:SHOWN_CLASSES])
    if len(shares) > SHOWN_CLASSES:
        text += f" and {len(shares) - SHOWN_CLASSES} more"
    return text


def _check_shift(
    split: Split, counts: dict[str, int], train_counts: dict[str, int], train_total: int
) -> Iterator[Finding]:
    total = len(split.usable_rows)
    changes: dict[str, float] = {}
    for name in counts:
        changes[name] = abs(counts[name] / total - train_counts[name] / train_total)
    distance = sum(changes.values()) / 2
    if distance <= SHARES_APART:
        return
    largest = max(changes, key=changes.__getitem__)
    shares = f"{train_counts[largest] / train_total:.0%} of train, {counts[largest] / total:.0%} of dev"
    message = f"Classes have other shares in dev than in train: {largest} is {shares}."
    yield Finding(split.task, "train/dev", "shift", "warning", round(distance * total), total, message)


def _class_counts(labels: list[str], reader: LabelReader) -> dict[str, int]:
    """Rows of each class, also of classes that have none."""
    counts = dict.fromkeys(reader.names, 0)
    for label, number in Counter(labels).items():
        for index in read_classes(label, reader):
            counts[reader.names[index]] += number
    return counts
