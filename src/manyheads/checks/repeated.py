"""The same text twice: within a split, between train and dev, between tasks; and whether its labels agree."""

from __future__ import annotations

from collections.abc import Iterator

from manyheads.checks.findings import Finding, Split, Texts, shown_texts

Places = list[tuple[int, int]]  # rows that belong together


def _twice(
    left: Split, right: Split, kind: str, what: str, same: Places, swapped: Places, of: int, labels: bool = False
) -> Iterator[Finding]:
    """Swapped pairs are notes, since the order of its sentences may matter to a task."""
    vs = "" if left is right else left.name
    yield from right.found("warning", kind, what, len(same), of, _both(left, right, same, labels), vs)
    what, examples = f"{what}, with the sentences swapped", _both(left, right, swapped, labels)
    yield from right.found("note", f"{kind}-swapped", what, len(swapped), of, examples, vs)


def _both(left: Split, right: Split, rows: Places, labels: bool) -> Iterator[str]:
    return (
        f"{left.location(a, labels)} and {right.location(b, labels)}: {shown_texts(left.texts[a])}" for a, b in rows
    )


def duplicates(rows: Split) -> Iterator[Finding]:
    """Rows that repeat an earlier one: all but the first of each group."""
    first: dict[Texts, int] = {}
    same: Places = []
    swapped: Places = []
    for row, texts in enumerate(rows.texts):
        if texts in first:
            same.append((first[texts], row))
            continue
        if texts[::-1] in first:
            swapped.append((first[texts[::-1]], row))
        first[texts] = row
    what = f"rows of {rows.name} repeat{{s}} an earlier one"
    yield from _twice(rows, rows, "duplicates", what, same, swapped, len(rows.texts))


def conflicts(rows: Split) -> Iterator[Finding]:
    """Groups of equal texts, or of equal pairs in either order, that have different labels."""
    groups: dict[Texts, list[int]] = {}
    for row, label in enumerate(rows.labels):
        if label:
            groups.setdefault(tuple(sorted(rows.texts[row])), []).append(row)
    several = [group for group in groups.values() if len(group) > 1]
    same: Places = []
    swapped: Places = []
    for group in several:
        first: dict[Texts, int] = {}
        within = [(one, row) for row in group if _differ(rows, one := first.setdefault(rows.texts[row], row), row)]
        across = [(group[0], row) for row in group if _differ(rows, group[0], row)]
        same += within[:1]
        swapped += [] if within else across[:1]
    what = f"groups of equal rows in {rows.name} {{have}} different labels"
    yield from _twice(rows, rows, "conflicts", what, same, swapped, len(several), labels=True)


def _differ(rows: Split, one: int, other: int) -> bool:
    return rows.labels[one] != rows.labels[other]


def overlap(train: Split, other: Split) -> Iterator[Finding]:
    """Rows of train that dev or test has too."""
    there: dict[Texts, list[int]] = {}
    for row, texts in enumerate(other.texts):
        there.setdefault(texts, []).append(row)
    same: Places = []
    swapped: Places = []
    differing: Places = []
    for row, texts in enumerate(train.texts):
        if texts in there:
            same.append((row, there[texts][0]))
            if other.labels and train.labels[row] not in {other.labels[one] for one in there[texts]}:
                differing.append((row, there[texts][0]))
        elif texts[::-1] in there:
            swapped.append((row, there[texts[::-1]][0]))
    of, what = len(train.texts), f"rows of train {{are}} in {other.name} too"
    yield from _twice(train, other, "overlap", what, same, swapped, of)
    yield from _twice(train, other, "overlap-conflicts", f"{what}, with another label", differing, [], of, labels=True)
    if other.name == "dev" and len(other.raw.texts) == 2:
        yield from common_sentences(other, train)


def common_sentences(dev: Split, train: Split) -> Iterator[Finding]:
    """Single sentences of dev that this task, or another one, trains on."""
    sentences, known = dev.sentences(), train.sentences()
    both = [text for text in reversed(sentences) if text in known]  # in the order of the file
    examples = (
        f"{dev.location(sentences[one])} and {train.location(known[one])}: {shown_texts((one,))}" for one in both
    )
    own = train.task == dev.task
    kind, where = ("shared-sentences", "some pair of train") if own else ("other-task", f"train of task '{train.task}'")
    what = f"different sentences of dev {{are}} in {where}"
    yield from dev.found("note", kind, what, len(both), len(sentences), examples, "train" if own else "")
