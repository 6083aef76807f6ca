"""One split's rows, as checks look at them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from manyheads.data.choices import file_label
from manyheads.data.labels import BETWEEN
from manyheads.data.table import Table

SHOWN_LETTERS = 60

Texts = tuple[str, ...]


@dataclass
class Split:
    """One split's rows as the file has them: texts without surrounding spaces, labels as normalised words."""

    task: str
    name: str
    table: Table
    texts: list[Texts]
    usable_rows: list[int] = field(default_factory=list)  # that training would take

    @cached_property
    def labels(self) -> list[str]:
        """Empty where labels are not read: in test."""
        if self.table.labels is None:
            return []
        return self.table.labels.to_pylist()

    @property
    def usable_labels(self) -> list[str]:
        return [self.labels[row] for row in self.usable_rows]

    @property
    def total(self) -> int:
        """All rows of the files, also those whose texts are missing."""
        return len(self.table) + len(self.table.bad)

    def location(self, row: int) -> str:
        """'train.csv:7'"""
        return self.table.location(row)

    def labelled_location(self, row: int) -> str:
        """'train.csv:7 (good)'"""
        classes = file_label(self.labels[row]).removeprefix(BETWEEN).replace(BETWEEN, ", ")
        return f"{self.location(row)} ({printable(classes)})"

    def quotes(self, rows: Iterable[int]) -> Iterator[str]:
        """'train.csv:7: «a text»' of each row."""
        for row in rows:
            yield f"{self.location(row)}: {quote_texts(self.texts[row])}"

    def sentences(self) -> dict[str, int]:
        """Every single sentence, in the order of the file, and the first row that has it."""
        first_rows: dict[str, int] = {}
        for row, texts in enumerate(self.texts):
            for text in texts:
                first_rows.setdefault(text, row)
        return first_rows


def quote_texts(texts: Texts) -> str:
    """Texts cut for the screen, with nothing in them that would upset a terminal."""
    room = SHOWN_LETTERS // len(texts)
    quotes: list[str] = []
    for text in texts:
        if len(text) > room:
            text = text[: room - 1] + "…"
        quotes.append(f"«{printable(text)}»")
    return " ".join(quotes)


def printable(text: str) -> str:
    """The text with nothing in it that would upset a terminal."""
    letters: list[str] = []
    for letter in text:
        if not letter.isprintable():
            letter = ascii(letter)[1:-1]
        letters.append(letter)
    return "".join(letters)
