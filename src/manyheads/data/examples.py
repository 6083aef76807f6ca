"""A task's rows, checked: texts that are there, labels that mean something. Bad rows are reported, never lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from manyheads.data.labels import BadLabel, LabelReader, normalise
from manyheads.data.readers import Chunk, read_chunks, source_name
from manyheads.errors import UserError, nearest
from manyheads.recipe import Source

SHOWN_BAD_ROWS = 20
PAIR_NAMES = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("premise", "hypothesis"),
)
TEXT_NAMES = ("text", "sentence", "review", "utterance", "content", "question", "comment", "tweet")
LABEL_NAMES = ("label", "labels", "sentiment", "similarity", "is_duplicate", "score", "class", "category", "intent")


@dataclass(frozen=True)
class Columns:
    """Which columns of a task's files are read."""

    text: tuple[str, ...]
    label: str | None  # None: labels are not wanted
    id: str | None  # None: 'id' where the file has it, else the row's number


@dataclass
class Examples:
    """Rows of one split, column by column. Texts are Arrow strings: compact, and never copied as Python objects."""

    texts: tuple[pa.ChunkedArray, ...]
    labels: np.ndarray | None  # [rows] class indices (int64) or numbers (float64)
    ids: pa.ChunkedArray
    lines: np.ndarray  # [rows] where each row stands in its file
    files: np.ndarray  # [rows] index into `sources`
    sources: tuple[str, ...]
    skipped: int = 0  # bad rows that were dropped

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: np.ndarray) -> Examples:
        wanted = pa.array(rows)
        return Examples(
            texts=tuple(column.take(wanted) for column in self.texts),
            labels=None if self.labels is None else self.labels[rows],
            ids=self.ids.take(wanted),
            lines=self.lines[rows],
            files=self.files[rows],
            sources=self.sources,
        )

    def place(self, row: int) -> str:
        """'file:line' of a row, for messages."""
        return f"{self.sources[self.files[row]]}:{self.lines[row]}"


class BadRow(NamedTuple):
    """Where a row that cannot be used stands, and why it cannot."""

    file: int
    line: int
    reason: str


@dataclass
class RawRows:
    """Rows before their labels are understood."""

    texts: tuple[list[pa.Array], ...]
    labels: list[str]
    ids: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    sources: tuple[str, ...] = ()
    bad: list[BadRow] = field(default_factory=list)


def recognise_columns(file: str, columns: list[str], text: list[str] | None, label: str | None) -> Columns:
    """The text and label columns by their names, where the recipe does not say which they are."""
    named = [name for name in columns if name]
    pair = next((pair for pair in PAIR_NAMES if set(pair) <= set(named)), None)
    single = next(((name,) for name in TEXT_NAMES if name in named), None)
    texts = tuple(text) if text else pair or single
    label = label or next((name for name in LABEL_NAMES if name in named and name not in (texts or ())), None)
    if texts is None or label is None:
        missing = "text" if texts is None else "label"
        raise UserError(
            f"{file}: cannot tell which column is the {missing}. Columns: {', '.join(named)}. "
            f"Name it in the recipe, for example `{missing}: {named[0] if named else 'NAME'}`."
        )
    return Columns(texts, label, None)


def check_columns(file: str, columns: list[str], wanted: Columns, place: str) -> None:
    """A column that the file does not have is an error that names those it has."""
    for name in (*wanted.text, wanted.label, wanted.id):
        if name is not None and name not in columns:
            raise UserError(f"{place}: {file}: no column '{name}'.{nearest(name, filter(None, columns))}")


def read_rows(sources: list[Source], root: Path, split: str, wanted: Columns, place: str) -> RawRows:
    """All rows of a split whose texts are there. Labels are kept as the file has them."""
    raw = RawRows(texts=tuple([] for _ in wanted.text), labels=[])
    raw.sources = tuple(source_name(source, split) for source in sources)
    for file, source in enumerate(sources):
        for chunk in read_chunks(source, root, split):
            if chunk.rows or not raw.lines:
                check_columns(raw.sources[file], chunk.columns, wanted, place)
                kept = list(_good_rows(raw, file, chunk, wanted))
                for column, texts in enumerate(raw.texts):
                    texts.append(pa.array((row[column] for row in kept), type=pa.large_string()))
    return raw


def _good_rows(raw: RawRows, file: int, chunk: Chunk, columns: Columns) -> Iterator[list[str]]:
    """Yields the texts of each usable row, after noting its label, id and place."""
    names = chunk.columns
    text_at = [names.index(name) for name in columns.text]
    label_at = None if columns.label is None else names.index(columns.label)
    id_name = columns.id or ("id" if "id" in names else None)
    id_at = None if id_name is None else names.index(id_name)
    read_at = text_at if label_at is None else [*text_at, label_at]
    reasons = iter(chunk.faults)
    for row, line in zip(chunk.rows, chunk.lines, strict=True):
        if row is None:
            raw.bad.append(BadRow(file, line, next(reasons)))
            continue
        odd = next((at for at in read_at if isinstance(row[at], bytes | list | dict)), None)
        if odd is not None:
            raw.bad.append(BadRow(file, line, f"{type(row[odd]).__name__} instead of text in column '{names[odd]}'"))
            continue
        texts = [_text(row[at]) for at in text_at]
        if not all(texts):
            raw.bad.append(BadRow(file, line, f"empty text in column '{columns.text[texts.index('')]}'"))
            continue
        if label_at is not None:
            raw.labels.append(normalise(row[label_at]))
        raw.ids.append(str(len(raw.ids) + len(raw.bad)) if id_at is None else _text(row[id_at]))
        raw.lines.append(line)
        raw.files.append(file)
        yield texts


def _text(cell: Any) -> str:
    return "" if cell is None or cell != cell else str(cell).strip()  # NaN is how some tools write an empty cell


def label_rows(raw: RawRows, reader: LabelReader | None, skip_bad: bool | None, place: str) -> Examples:
    """Rows with their labels read. Bad rows stop here with a list of the first ones, unless they are to be skipped.

    `place` says which key of the recipe asked for the data; `reader` None means that labels are not wanted;
    `skip_bad` None means that there is no recipe in which to ask for skipping.
    """
    keep = np.arange(len(raw.lines))
    labels = None
    bad = list(raw.bad)
    if reader is not None:
        numbers: list[float] = []
        kept: list[int] = []
        for row, label in enumerate(raw.labels):
            try:
                numbers.append(reader.read(label))
                kept.append(row)
            except BadLabel as fault:
                bad.append(BadRow(raw.files[row], raw.lines[row], str(fault)))
        keep = np.array(kept, dtype=np.int64)
        labels = np.array(numbers, dtype=np.int64 if reader.kind == "classification" else np.float64)
    if bad and not skip_bad:
        skipping = ", or set `bad_rows: skip` (for the task, or under `data`) to leave them out"
        advice = f"Mend the file{'' if skip_bad is None else skipping}."
        raise UserError(f"{place}: {_list_bad_rows(raw, sorted(bad))}\n{advice}")
    if not len(keep):
        raise UserError(f"{place}: no usable row in {', '.join(raw.sources)}.")
    everything = len(keep) == len(raw.lines)
    ids = pa.chunked_array([pa.array(raw.ids, type=pa.large_string())])
    columns = tuple(pa.chunked_array(parts, type=pa.large_string()) for parts in raw.texts)
    return Examples(
        texts=columns if everything else tuple(column.take(pa.array(keep)) for column in columns),
        labels=labels,
        ids=ids if everything else ids.take(pa.array(keep)),
        lines=np.array(raw.lines, dtype=np.int64)[keep],
        files=np.array(raw.files, dtype=np.int16)[keep],
        sources=raw.sources,
        skipped=len(bad),
    )


def _list_bad_rows(raw: RawRows, bad: list[BadRow]) -> str:
    rows = "1 bad row" if len(bad) == 1 else f"{len(bad)} bad rows"
    shown = "".join(f"\n  {raw.sources[one.file]}:{one.line}: {one.reason}" for one in bad[:SHOWN_BAD_ROWS])
    more = f"\n  … and {len(bad) - SHOWN_BAD_ROWS} more" if len(bad) > SHOWN_BAD_ROWS else ""
    return f"{rows} of {len(raw.lines) + len(raw.bad)}:{shown}{more}"
