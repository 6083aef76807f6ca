"""The same text twice: within a split, between train and dev, between tasks; and whether its labels agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from manyheads.checks.findings import Finding, count_finding
from manyheads.checks.split import Split, Texts, quote_texts

RowPairs = list[tuple[int, int]]  # a row of the first split, and one of the second


@dataclass
class Matches:
    """Rows of one split that are in another, or further up in the same one."""

    first: Split
    second: Split
    equal: RowPairs = field(default_factory=list)
    swapped: RowPairs = field(default_factory=list)  # pairs whose sentences stand the other way round

    def findings(self, kind: str, text: str, total: int, with_labels: bool = False) -> Iterator[Finding]:
        """Swapped pairs are notes, since the order of its sentences may matter to a task."""
        task, split = self.second.task, self.second.name
        if self.first is not self.second:
            split = f"{self.first.name}/{self.second.name}"
        equal, swapped = (len(self.equal), total), (len(self.swapped), total)
        examples = self._examples(self.equal, with_labels)
        yield from count_finding(task, split, kind, "warning", equal, text, examples)
        text = f"{text}, with the sentences swapped"
        examples = self._examples(self.swapped, with_labels)
        yield from count_finding(task, split, f"{kind}-swapped", "note", swapped, text, examples)

    def _examples(self, pairs: RowPairs, with_labels: bool) -> Iterator[str]:
        for first_row, second_row in pairs:
            quoted = quote_texts(self.first.texts[first_row])
            if with_labels:
                first, second = self.first.labelled_location(first_row), self.second.labelled_location(second_row)
            else:
                first, second = self.first.location(first_row), self.second.location(second_row)
            yield f"{first} and {second}: {quoted}"


def find_duplicates(split: Split) -> Iterator[Finding]:
    """Rows that repeat an earlier one: all but the first of each group."""
    first_rows: dict[Texts, int] = {}
    matches = Matches(split, split)
    for row, texts in enumerate(split.texts):
        if texts in first_rows:
            matches.equal.append((first_rows[texts], row))
            continue
        if texts[::-1] in first_rows:
            matches.swapped.append((first_rows[texts[::-1]], row))
        first_rows[texts] = row
    text = f"rows of {split.name} repeat{{s}} an earlier one"
    yield from matches.findings("duplicates", text, len(split.texts))


def find_conflicts(split: Split) -> Iterator[Finding]:
    """Groups of equal texts, or of equal pairs in either order, that have different labels."""
    groups: dict[Texts, list[int]] = {}
    for row, label in enumerate(split.labels):
        if label:
            groups.setdefault(tuple(sorted(split.texts[row])), []).append(row)
    repeated = [rows for rows in groups.values() if len(rows) > 1]
    matches = Matches(split, split)
    for rows in repeated:
        equal = _first_conflict(split, rows, in_order=True)
        swapped = _first_conflict(split, rows, in_order=False)
        if equal is not None:
            matches.equal.append(equal)
        elif swapped is not None:
            matches.swapped.append(swapped)
    text = f"groups of equal rows in {split.name} {{have}} different labels"
    yield from matches.findings("conflicts", text, len(repeated), with_labels=True)


def _first_conflict(split: Split, rows: list[int], in_order: bool) -> tuple[int, int] | None:
    """The first row whose label differs from that of the first row with its texts, in this order or in any."""
    first_rows: dict[Texts, int] = {}
    for row in rows:
        first_row = rows[0]
        if in_order:
            first_row = first_rows.setdefault(split.texts[row], row)
        if split.labels[first_row] != split.labels[row]:
            return first_row, row
    return None


def find_overlap(train: Split, held_out: Split) -> Iterator[Finding]:
    """Rows of train that dev or test has too."""
    held_out_rows: dict[Texts, list[int]] = {}
    for row, texts in enumerate(held_out.texts):
        held_out_rows.setdefault(texts, []).append(row)
    matches = Matches(train, held_out)
    conflicts = Matches(train, held_out)
    for row, texts in enumerate(train.texts):
        if texts in held_out_rows:
            pair = (row, held_out_rows[texts][0])
            matches.equal.append(pair)
            if held_out.labels and train.labels[row] not in {held_out.labels[match] for match in held_out_rows[texts]}:
                conflicts.equal.append(pair)
        elif texts[::-1] in held_out_rows:
            matches.swapped.append((row, held_out_rows[texts[::-1]][0]))
    text = f"rows of train {{are}} in {held_out.name} too"
    total = len(train.texts)
    yield from matches.findings("overlap", text, total)
    yield from conflicts.findings("overlap-conflicts", f"{text}, with another label", total, with_labels=True)
    if held_out.name == "dev" and len(held_out.table.texts) == 2:
        yield from find_common_sentences(held_out, train)


def find_common_sentences(dev: Split, train: Split) -> Iterator[Finding]:
    """Single sentences of dev that this task, or another one, trains on."""
    dev_sentences, train_sentences = dev.sentences(), train.sentences()
    common = [text for text in dev_sentences if text in train_sentences]
    split, kind, where = "dev", "other-task", f"train of task '{train.task}'"
    if train.task == dev.task:
        split, kind, where = "train/dev", "shared-sentences", "some pair of train"

    def examples() -> Iterator[str]:
        for text in common:
            dev_location, train_location = dev.location(dev_sentences[text]), train.location(train_sentences[text])
            yield f"{dev_location} and {train_location}: {quote_texts((text,))}"

    share = (len(common), len(dev_sentences))
    text = f"different sentences of dev {{are}} in {where}"
    yield from count_finding(dev.task, split, kind, "note", share, text, examples())
