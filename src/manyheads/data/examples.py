"""A task's rows, checked: texts that are there, labels that mean something. Bad rows are reported, never lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from manyheads.data.labels import FAULT, YES, BadLabel, LabelReader, as_list, normalise
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
    label: str | tuple[str, ...] | None  # several: a yes-or-no column per class; None: labels are not wanted
    id: str | None  # None: 'id' where the file has it, else the row's number


@dataclass
class Examples:
    """Rows of one split, column by column. Texts are Arrow strings: compact, and never copied as Python objects."""

    texts: tuple[pa.ChunkedArray, ...]
    labels: np.ndarray | None  # [rows] class indices (int64) or numbers (float64), or [rows, classes] 0 and 1 (int64)
    ids: pa.ChunkedArray
    lines: np.ndarray  # [rows] where each row stands in its file
    files: np.ndarray  # [rows] index into `sources`
    sources: tuple[str, ...]
    skipped: int = 0  # bad rows that were dropped

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def labelled(self) -> np.ndarray:
        """[rows] whether this task has a label there: rows that several tasks read may lack some of them."""
        if self.labels is None:
            return np.zeros(len(self), dtype=bool)
        first = self.labels if self.labels.ndim == 1 else self.labels[:, 0]
        return ~np.isnan(first) if first.dtype.kind == "f" else first >= 0

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


def recognise_columns(
    file: str, columns: list[str], text: list[str] | None, label: str | tuple[str, ...] | None
) -> Columns:
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
    for name in (*wanted.text, *label_columns(wanted), wanted.id):
        if name is not None and name not in columns:
            raise UserError(f"{place}: {file}: no column '{name}'.{nearest(name, filter(None, columns))}")


def label_columns(columns: Columns) -> tuple[str, ...]:
    """The columns that labels are read from."""
    return columns.label if isinstance(columns.label, tuple) else (columns.label,) if columns.label else ()


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
    labels_at = [names.index(name) for name in label_columns(columns)]
    id_name = columns.id or ("id" if "id" in names else None)
    id_at = None if id_name is None else names.index(id_name)
    reasons = iter(chunk.faults)
    for row, line in zip(chunk.rows, chunk.lines, strict=True):
        if row is None:
            raw.bad.append(BadRow(file, line, next(reasons)))
            continue
        odd = next((at for at in text_at if isinstance(row[at], bytes | list | dict)), None)
        odd = next((at for at in labels_at if isinstance(row[at], bytes | dict)), odd)
        if odd is not None:
            raw.bad.append(BadRow(file, line, f"{type(row[odd]).__name__} instead of text in column '{names[odd]}'"))
            continue
        texts = [_text(row[at]) for at in text_at]
        if not all(texts):
            raw.bad.append(BadRow(file, line, f"empty text in column '{columns.text[texts.index('')]}'"))
            continue
        if labels_at:
            raw.labels.append(_label([row[at] for at in labels_at], columns))
        raw.ids.append(str(len(raw.ids) + len(raw.bad)) if id_at is None else _text(row[id_at]))
        raw.lines.append(line)
        raw.files.append(file)
        yield texts


def _label(cells: list[Any], columns: Columns) -> str:
    """The label as one word; where it is a list of classes, or a column per class, those that the row has."""
    if isinstance(columns.label, tuple):
        answers = [normalise(cell).lower() for cell in cells]
        if not any(answers):
            return ""
        wrong = next((at for at, answer in enumerate(answers) if answer not in YES), None)
        if wrong is not None:
            return f"{FAULT}expected 0 or 1 in column '{columns.label[wrong]}', found '{answers[wrong]}'"
        return as_list(name for name, one in zip(columns.label, answers, strict=True) if YES[one])
    if isinstance(cells[0], list | tuple):
        return as_list(map(normalise, cells[0]))
    return normalise(cells[0])


def _text(cell: Any) -> str:
    return "" if cell is None or cell != cell else str(cell).strip()  # NaN is how some tools write an empty cell


def label_rows(
    raw: RawRows, reader: LabelReader | None, skip_bad: bool | None, place: str, blanks: bool = False
) -> Examples:
    """Rows with their labels read. Bad rows stop here with a list of the first ones, unless they are to be skipped.

    `place` says which key of the recipe asked for the data; `reader` None means that labels are not wanted;
    `skip_bad` None means that there is no recipe in which to ask for skipping. `blanks`: several tasks read these
    rows, so a row without this task's label is kept, unlabelled, and so is one with a bad label that is skipped.
    """
    keep = np.arange(len(raw.lines))
    labels = None
    bad = list(raw.bad)
    if reader is not None:
        labels = _unlabelled(reader, len(raw.lines))
        for row, label in enumerate(raw.labels):
            if blanks and not label:
                continue
            try:
                if reader.kind == "multi-label":
                    classes = reader.read_several(label)
                    labels[row] = 0
                    labels[row, classes] = 1
                else:
                    labels[row] = reader.read(label)
            except BadLabel as fault:
                bad.append(BadRow(raw.files[row], raw.lines[row], str(fault)))
    if bad and not skip_bad:
        skipping = ", or set `bad_rows: skip` (for the task, or under `data`) to leave them out"
        advice = f"Mend the file{'' if skip_bad is None else skipping}."
        raise UserError(f"{place}: {_list_bad_rows(raw, sorted(bad))}\n{advice}")
    ids = pa.chunked_array([pa.array(raw.ids, type=pa.large_string())])
    columns = tuple(pa.chunked_array(parts, type=pa.large_string()) for parts in raw.texts)
    lines, files = np.array(raw.lines, dtype=np.int64), np.array(raw.files, dtype=np.int16)
    found = Examples(columns, labels, ids, lines, files, raw.sources)
    if reader is not None:
        keep = np.flatnonzero(found.labelled)
    if not len(keep):
        raise UserError(f"{place}: no usable row in {', '.join(raw.sources)}.")
    if not blanks and len(keep) < len(found):
        found = found.take(keep)
    found.skipped = len(bad)
    return found


def _unlabelled(reader: LabelReader, rows: int) -> np.ndarray:
    if reader.kind == "regression":
        return np.full(rows, np.nan)
    return np.full((rows, len(reader.names)) if reader.kind == "multi-label" else rows, -1, dtype=np.int64)


def _list_bad_rows(raw: RawRows, bad: list[BadRow]) -> str:
    rows = "1 bad row" if len(bad) == 1 else f"{len(bad)} bad rows"
    shown = "".join(f"\n  {raw.sources[one.file]}:{one.line}: {one.reason}" for one in bad[:SHOWN_BAD_ROWS])
    more = f"\n  … and {len(bad) - SHOWN_BAD_ROWS} more" if len(bad) > SHOWN_BAD_ROWS else ""
    return f"{rows} of {len(raw.lines) + len(raw.bad)}:{shown}{more}"
