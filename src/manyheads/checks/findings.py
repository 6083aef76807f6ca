"""What a check of data finds, and how it is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Literal

from manyheads.data.labels import BETWEEN
from manyheads.data.table import Table

Severity = Literal["error", "warning", "note"]  # error: training would stop
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
SHOWN_EXAMPLES = 3
SHOWN_LETTERS = 60

Texts = tuple[str, ...]


@dataclass(frozen=True)
class Finding:
    """One thing that was found in one split (or between two) of one task."""

    task: str
    split: str  # train, dev, test; train/dev and train/test where two are compared
    kind: str
    severity: Severity
    count: int  # how many rows, groups or sentences it concerns
    of: int  # out of how many
    message: str
    examples: tuple[str, ...] = ()  # 'file:line: «text»'


@dataclass
class Split:
    """One split's rows as the file has them: texts without surrounding spaces, labels as normalised words."""

    task: str
    name: str
    raw: Table
    texts: list[Texts]
    usable: list[int] = field(default_factory=list)  # rows that training would take

    @cached_property
    def labels(self) -> list[str]:
        """Empty where labels are not read: in test."""
        return self.raw.labels.to_pylist() if self.raw.labels is not None else []

    @property
    def total(self) -> int:
        """All rows of the files, also those whose texts are not there."""
        return len(self.raw) + len(self.raw.bad)

    def location(self, row: int, label: bool = False) -> str:
        shown = f" ({self.labels[row].replace(BETWEEN, ', ')})" if label else ""
        return f"{self.raw.location(row)}{shown}"

    def sentences(self) -> dict[str, int]:
        """Every single sentence, and the first row that has it."""
        return {text: row for row, texts in reversed(list(enumerate(self.texts))) for text in texts}

    def found(
        self, severity: Severity, kind: str, what: str, count: int, of: int, examples: Iterable[str] = (), vs: str = ""
    ) -> Iterator[Finding]:
        """A finding, unless it is about nothing: '3 of 40' and what they are or do, verbs as {have}, {are}, keep{s}."""
        if count:
            words = ("s", "has", "is") if count == 1 else ("", "have", "are")
            for marker, word in zip(("{s}", "{have}", "{are}"), words, strict=True):
                what = what.replace(marker, word)
            split = f"{vs}/{self.name}" if vs else self.name
            shown = tuple(islice(examples, SHOWN_EXAMPLES))
            yield Finding(self.task, split, kind, severity, count, of, f"{count:,} of {of:,} {what}.", shown)


def shown_texts(texts: Texts) -> str:
    """Texts cut for the screen, with nothing in them that would upset a terminal."""
    room = SHOWN_LETTERS // len(texts)
    cut = (text if len(text) <= room else text[: room - 1] + "…" for text in texts)
    return "«" + "» «".join("".join(c if c.isprintable() else ascii(c)[1:-1] for c in text) for text in cut) + "»"


def report(findings: list[Finding]) -> str:
    """For people: a heading per task, its findings, and how many there are of each severity."""
    lines: list[str] = []
    for task in dict.fromkeys(one.task for one in findings):
        lines.append(task or "the recipe")
        for one in findings:
            if one.task == task:
                lines.append(f"  {one.severity:<8} {one.message}")
                lines += [f"             {example}" for example in one.examples]
        lines.append("")
    counts = Counter(one.severity for one in findings)
    named = [f"{counts[one]} {one}{'' if counts[one] == 1 else 's'}" for one in SEVERITIES]
    faultless = not counts["error"] and not counts["warning"]
    return "\n".join([*lines, f"no faults found, {named[2]}" if faultless else ", ".join(named)])
