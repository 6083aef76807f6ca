"""How labels are spread, and whether dev's are spread like train's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from manyheads.checks.findings import Finding, Severity, count_finding
from manyheads.checks.split import Split, printable
from manyheads.data.choices import split_candidates
from manyheads.data.labels import LabelReader
from manyheads.tasks.kind import find_kind

SHOWN_CLASSES = 12
SHOWN_ENDS = 5  # of more classes so many of the smallest, and of the largest
SHOWN_CHANGES = 3
UNBALANCED = 10  # the largest class has so many times the rows of the smallest
MANY_CLASSES = 30  # of which most have one row: not classes at all
SHARES_APART = 0.1  # total variation distance between the class shares of train and dev, beyond that of chance
MEANS_APART = 0.5  # in standard deviations of train's labels


@dataclass(frozen=True)
class ClassCounts:
    """How many rows, or words, each class has; also classes that have none."""

    counts: dict[str, int]
    total: int
    unit: str  # rows or words

    def share(self, name: str) -> str:
        return format_share(self.counts[name], self.total)

    def describe(self, names: Iterable[str]) -> str:
        """'bad' 4 (50%), 'good' 4 (50%)"""
        return ", ".join(f"{quote_class(name)} {self.counts[name]:,} ({self.share(name)})" for name in names)


def format_share(count: int, total: int) -> str:
    """'49%', and '1.6%' or '0.014%' where whole percents would say little."""
    percent = 100 * count / total
    if percent < 10:
        return f"{percent:.2g}%"
    if 99 < percent < 100:
        return f"{percent:.4g}%"
    return f"{percent:.0f}%"


def quote_class(name: str) -> str:
    return f"'{printable(name)}'"


def check_balance(split: Split, reader: LabelReader, train: Split) -> Iterator[Finding]:
    """Of usable rows only."""
    if find_kind(reader.kind).searches:  # all rows have the same label
        return
    if find_kind(reader.kind).has_classes:
        yield from _check_classes(split, reader, train)
    elif find_kind(reader.kind).per_token:
        none = sum(label == "[]" for label in split.usable_labels)
        count = len(split.usable_labels)
        message = f"Labels of {split.name}: {none:,} of {count:,} questions have no answer in their text."
        yield Finding(split.task, split.name, "balance", "note", count, count, message)
    elif find_kind(reader.kind).per_candidate:
        yield _describe_places(split, reader)
    else:
        yield from _check_numbers(split, train)


def _describe_places(split: Split, reader: LabelReader) -> Finding:
    """How many candidates rows have, and how good it is to choose the same place always."""
    places = Counter(reader.read(label) for label in split.usable_labels)
    counts = [len(split_candidates(split.texts[row][1])[1]) for row in split.usable_rows]
    [(best, times)] = places.most_common(1)
    among = str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    message = (
        f"Labels of {split.name}: choices among {among} candidates; the right one is most often candidate {best + 1} "
        f"({times / len(counts):.0%} of rows)."
    )
    return Finding(split.task, split.name, "balance", "note", len(counts), len(counts), message)


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
    classes = _count_classes(split, reader)
    exclusive = find_kind(reader.kind).exclusive
    yield _describe_balance(split, classes, exclusive)
    if split is train and exclusive:
        yield from _check_joined(split, reader, classes)
        yield from _check_single_rows(split, classes)
    if split is train or not train.usable_rows:
        return
    train_classes = _count_classes(train, reader)
    missing = [name for name, number in train_classes.counts.items() if number and not classes.counts[name]]
    text = f"classes of train {{have}} no row in dev: {_list_classes(missing)}"
    share = (len(missing), len(train_classes.counts))
    yield from count_finding(split.task, f"train/{split.name}", "missing-class", "warning", share, text)
    if exclusive:
        yield from _check_shift(split, classes, train_classes)


def _check_joined(split: Split, reader: LabelReader, classes: ClassCounts) -> Iterator[Finding]:
    """Classes that look like several, of a task whose rows have one each."""
    separators: dict[str, str] = {}  # class → what it has between others
    for name in classes.counts:
        separator = reader.joining_separator(name)
        if separator is not None:
            separators[name] = separator
    text = (
        f"classes of train {{are}} others with '{next(iter(separators.values()), '')}' between them: where a row may "
        "have several classes, set `kind: multi-label`"
    )
    examples = map(quote_class, separators)
    share = (len(separators), len(classes.counts))
    yield from count_finding(split.task, split.name, "joined-classes", "warning", share, text, examples)


def _check_single_rows(split: Split, classes: ClassCounts) -> Iterator[Finding]:
    """Nearly every row with a class of its own is a column of texts, ids or numbers."""
    single = [name for name, count in classes.counts.items() if count == 1]
    if len(classes.counts) < MANY_CLASSES or 2 * len(single) < len(classes.counts):
        return
    text = "classes of train {have} one row: is this the label column? (numbers are `kind: regression`)"
    share = (len(single), len(classes.counts))
    yield from count_finding(split.task, split.name, "single-rows", "warning", share, text, map(quote_class, single))


def _describe_balance(split: Split, classes: ClassCounts, exclusive: bool) -> Finding:
    """How many rows the classes have, which is unbalanced where some have ten times those of others, or none."""
    by_size = sorted(filter(classes.counts.__getitem__, classes.counts), key=classes.counts.__getitem__)
    examples: tuple[str, ...] = ()
    if len(classes.counts) <= SHOWN_CLASSES:
        spread = classes.describe(classes.counts)
    else:
        spread, examples = _describe_many(classes, by_size)
    imbalance = ""
    if by_size and classes.counts[by_size[-1]] > UNBALANCED * classes.counts[by_size[0]]:
        times = classes.counts[by_size[-1]] / classes.counts[by_size[0]]
        rare = f"{times:,.0f} times the {classes.unit} of {quote_class(by_size[0])}"
        imbalance = f" Imbalanced: {quote_class(by_size[-1])} has {rare}."
    if split.name == "train" and len(by_size) < len(classes.counts):
        empty = [name for name in classes.counts if not classes.counts[name]]
        imbalance += f" Without a row: {_list_classes(empty)}."
    severity: Severity = "note"
    if imbalance and exclusive and split.name == "train":  # where a row has several classes, rare ones are usual
        severity = "warning"
    message = f"Labels of {split.name}: {spread}.{imbalance}"
    count = len(split.usable_rows)
    return Finding(split.task, split.name, "balance", severity, count, count, message, examples)


def _describe_many(classes: ClassCounts, by_size: list[str]) -> tuple[str, tuple[str, ...]]:
    """How large the classes are; and, unless they are all of a size, the smallest and the largest."""
    sizes = [classes.counts[name] for name in by_size] or [0]
    if sizes[0] == sizes[-1]:
        return f"{len(by_size)} classes with {sizes[0]:,} {classes.unit} each", ()
    fewest, most = by_size[:SHOWN_ENDS], by_size[: -SHOWN_ENDS - 1 : -1]
    spread = f"{len(by_size)} classes with {sizes[0]:,} to {sizes[-1]:,} of {classes.total:,} {classes.unit}"
    return spread, (f"fewest: {classes.describe(fewest)}", f"most: {classes.describe(most)}")


def _list_classes(names: list[str]) -> str:
    text = ", ".join(map(quote_class, names[:SHOWN_CLASSES]))
    if len(names) > SHOWN_CLASSES:
        text += f" and {len(names) - SHOWN_CLASSES} more"
    return text


def _check_shift(split: Split, classes: ClassCounts, train: ClassCounts) -> Iterator[Finding]:
    """Whether the shares p of train and q of dev differ by more than chance: ½ Σ |p − q| − expected > 0.1.

    Two draws of n and m rows with the same shares r differ by |p − q| ≈ √(2 r (1 − r) (1/n + 1/m) / π) on average.
    """
    changes: dict[str, float] = {}
    expected = 0.0
    for name in classes.counts:
        count, train_count = classes.counts[name], train.counts[name]
        changes[name] = abs(count / classes.total - train_count / train.total)
        share = (count + train_count) / (classes.total + train.total)
        variance = share * (1 - share) * (1 / classes.total + 1 / train.total)
        expected += math.sqrt(2 * variance / math.pi) / 2
    distance = sum(changes.values()) / 2
    if distance - expected <= SHARES_APART:
        return
    largest_first = sorted(changes, key=changes.__getitem__, reverse=True)
    sentences: list[str] = []
    for name in largest_first[: min(SHOWN_CHANGES, len(changes) - 1)]:  # of two classes one says it all
        in_train = f"{train.counts[name]:,} of {train.total:,} {train.unit} of train ({train.share(name)})"
        in_dev = f"{classes.counts[name]:,} of {classes.total:,} of dev ({classes.share(name)})"
        sentences.append(f"{quote_class(name)} has {in_train}, {in_dev}")
    message = f"Classes have other shares in dev than in train: {'; '.join(sentences)}."
    count, total = round(distance * classes.total), classes.total
    yield Finding(split.task, "train/dev", "shift", "warning", count, total, message)


def _count_classes(split: Split, reader: LabelReader) -> ClassCounts:
    kind = find_kind(reader.kind)
    counts = dict.fromkeys(reader.names, 0)
    for label, number in Counter(split.usable_labels).items():
        value = np.asarray(reader.read(label))
        indices = np.atleast_1d(value)
        if not kind.exclusive:
            indices = np.flatnonzero(value)
        for index in indices:
            counts[reader.names[index]] += number
    if kind.per_word:
        return ClassCounts(counts, sum(counts.values()), "words")
    return ClassCounts(counts, len(split.usable_rows), "rows")
