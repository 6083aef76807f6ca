"""A task's rows, checked: texts that are there, labels that mean something. Bad rows are reported, never lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.config.label_text import normalise
from manyheads.config.task import Source
from manyheads.data.labels import FAULT, YES, BadLabel, LabelReader, as_list, is_labelled
from manyheads.data.readers import Chunk, read_chunks, source_name
from manyheads.data.table import (
    BadRow,
    Columns,
    Table,
    TableChunk,
    hold_rows,
    rows_fingerprint,
    rows_of_entry,
    write_rows,
)
from manyheads.errors import UserError, nearest
from manyheads.storage.cache import CacheNotWritable, EntryWriter, cached
from manyheads.storage.strings import Strings

SHOWN_BAD_ROWS = 20
PLAIN = {str, int, float, bool}  # of one kind, equal cells are one label; 1 and True are not
PAIR_NAMES = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("premise", "hypothesis"),
)
TEXT_NAMES = ("text", "sentence", "review", "utterance", "content", "question", "comment", "tweet")
LABEL_NAMES = ("label", "labels", "sentiment", "similarity", "is_duplicate", "score", "class", "category", "intent")


@dataclass
class Dataset:
    """Rows of one split, or some of them: a list of row numbers, so that no text is ever copied."""

    raw: Table
    labels: np.ndarray | None  # [rows] class indices (int64) or numbers (float64), or [rows, classes] 0 and 1 (int64)
    rows: np.ndarray | None = None  # which rows of `raw` these are; None: all
    skipped: int = 0  # bad rows that were dropped

    def __len__(self) -> int:
        return len(self.raw if self.rows is None else self.rows)

    @property
    def texts(self) -> tuple[Strings, ...]:
        return tuple(self._own(column) for column in self.raw.texts)

    @property
    def ids(self) -> Strings:
        return self._own(self.raw.ids)

    @property
    def lines(self) -> np.ndarray:
        """[rows] where each row stands in its file."""
        return self.raw.lines if self.rows is None else self.raw.lines[self.rows]

    @cached_property
    def labelled(self) -> np.ndarray:
        """[rows] whether this task has a label there: rows that several tasks read may lack some of them."""
        if self.labels is None:
            return np.zeros(len(self), dtype=bool)
        return is_labelled(self.labels)

    @cached_property
    def labelled_rows(self) -> np.ndarray:
        """The numbers of the labelled rows."""
        return np.flatnonzero(self.labelled)

    def take(self, rows: np.ndarray) -> Dataset:
        labels = None if self.labels is None else self.labels[rows]
        return Dataset(self.raw, labels, rows if self.rows is None else self.rows[rows])

    def location(self, row: int) -> str:
        """'file:line' of a row, for messages."""
        return self.raw.location(row if self.rows is None else int(self.rows[row]))

    def _own(self, column: Strings) -> Strings:
        return column if self.rows is None else column.take(self.rows)


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


def check_columns(file: str, columns: list[str], wanted: Columns, location: str) -> None:
    """A column that the file does not have is an error that names those it has."""
    for name in (*wanted.text, *label_columns(wanted), wanted.id):
        if name is not None and name not in columns:
            raise UserError(f"{location}: {file}: no column '{name}'.{nearest(name, filter(None, columns))}")


def label_columns(columns: Columns) -> tuple[str, ...]:
    """The columns that labels are read from."""
    return columns.label if isinstance(columns.label, tuple) else (columns.label,) if columns.label else ()


def read_rows(sources: list[Source], root: Path, split: str, wanted: Columns, location: str) -> Table:
    """All rows of a split whose texts are there. Labels are kept as the file has them."""
    names = tuple(source_name(source, split) for source in sources)
    bad: list[BadRow] = []
    fingerprint = rows_fingerprint(sources, root, wanted)
    if fingerprint is not None:

        def write(writer: EntryWriter) -> None:
            write_rows(writer, _pieces(sources, root, split, wanted, location, bad), wanted, bad)

        try:
            return rows_of_entry(cached("rows", fingerprint, write), wanted, names)
        except CacheNotWritable:
            bad.clear()  # then they are held in memory
    return hold_rows(_pieces(sources, root, split, wanted, location, bad), wanted, names, bad)


def _pieces(
    sources: list[Source], root: Path, split: str, wanted: Columns, location: str, bad: list[BadRow]
) -> Iterator[TableChunk]:
    """The usable rows, chunk by chunk; the others are added to `bad`."""
    count = 0
    for file, source in enumerate(sources):
        for chunk in read_chunks(source, root, split):
            if chunk.rows or not count:
                check_columns(source_name(source, split), chunk.columns, wanted, location)
                number = count + len(bad)  # rows that are left out still count: an id leads back to its row in the file
                piece = _plain_rows(file, chunk, wanted, number) or _good_rows(file, chunk, wanted, number, bad)
                count += len(piece.lines)
                yield piece


def _plain_rows(file: int, chunk: Chunk, columns: Columns, number: int) -> TableChunk | None:
    """The rows of a chunk with nothing odd in it, column by column, which is several times as quick; else None."""
    rows = [row for row in chunk.rows if row is not None]
    if not rows or len(rows) < len(chunk.rows):
        return None

    def cells(name: str) -> list[Any]:
        at = chunk.columns.index(name)
        return [row[at] for row in rows]

    sides, marks = [cells(name) for name in columns.text], [cells(name) for name in label_columns(columns)]
    kinds = [set(map(type, one)) for one in marks]
    if any(set(map(type, one)) != {str} for one in sides) or any(len(one) > 1 or not one <= PLAIN for one in kinds):
        return None
    texts = tuple([text.strip() for text in side] for side in sides)
    if any("" in side for side in texts):
        return None
    labels = list(zip(*marks, strict=True))
    words = {one: _label(list(one), columns) for one in set(labels)}  # each distinct one is read once
    id_name = columns.id or ("id" if "id" in chunk.columns else None)
    numbers = range(number, number + len(rows))
    ids = list(map(str, numbers)) if id_name is None else list(map(_text, cells(id_name)))
    return TableChunk(file, texts, [words[one] for one in labels], ids, chunk.lines)


def _good_rows(file: int, chunk: Chunk, columns: Columns, number: int, bad: list[BadRow]) -> TableChunk:
    """The usable rows of any chunk."""
    names = chunk.columns
    text_at = [names.index(name) for name in columns.text]
    labels_at = [names.index(name) for name in label_columns(columns)]
    id_name = columns.id or ("id" if "id" in names else None)
    id_at = None if id_name is None else names.index(id_name)
    reasons = iter(chunk.faults)
    found = TableChunk(file, tuple([] for _ in text_at))
    for at_row, (row, line) in enumerate(zip(chunk.rows, chunk.lines, strict=True), number):
        if row is None:
            bad.append(BadRow(file, line, next(reasons)))
            continue
        odd = next((at for at in text_at if isinstance(row[at], bytes | list | dict)), None)
        odd = next((at for at in labels_at if isinstance(row[at], bytes | dict)), odd)
        if odd is not None:
            bad.append(BadRow(file, line, f"{type(row[odd]).__name__} instead of text in column '{names[odd]}'"))
            continue
        texts = [_text(row[at]) for at in text_at]
        if not all(texts):
            bad.append(BadRow(file, line, f"empty text in column '{columns.text[texts.index('')]}'"))
            continue
        if labels_at:
            found.labels.append(_label([row[at] for at in labels_at], columns))
        found.ids.append(str(at_row) if id_at is None else _text(row[id_at]))
        found.lines.append(line)
        for side, text in zip(found.texts, texts, strict=True):
            side.append(text)
    return found


def _label(cells: list[Any], columns: Columns) -> str:
    """The label as one word; where it is a list of classes, or a column per class, those that the row has."""
    if isinstance(columns.label, tuple):
        predictions = [normalise(cell).lower() for cell in cells]
        if not any(predictions):
            return ""
        wrong = next((at for at, prediction in enumerate(predictions) if prediction not in YES), None)
        if wrong is not None:
            return f"{FAULT}expected 0 or 1 in column '{columns.label[wrong]}', found '{predictions[wrong]}'"
        return as_list(name for name, one in zip(columns.label, predictions, strict=True) if YES[one])
    if isinstance(cells[0], list | tuple):
        return as_list(map(normalise, cells[0]))
    return normalise(cells[0])


def _text(cell: Any) -> str:
    return "" if cell is None or cell != cell else str(cell).strip()  # NaN is how some tools write an empty cell


def label_rows(
    raw: Table, reader: LabelReader | None, skip_bad: bool | None, location: str, blanks: bool = False
) -> Dataset:
    """Rows with their labels read. Bad rows stop here with a list of the first ones, unless they are to be skipped.

    `place` says which key of the recipe asked for the data; `reader` None means that labels are not wanted;
    `skip_bad` None means that there is no recipe in which to ask for skipping. `blanks`: several tasks read these
    rows, so a row without this task's label is kept, unlabelled, and so is one with a bad label that is skipped.
    """
    labels = None
    bad = list(raw.bad)
    if reader is not None:
        labels = _read_labels(raw, reader, bad, blanks)
    if bad and not skip_bad:
        skipping = ", or set `bad_rows: skip` (for the task, or under `data`) to leave them out"
        advice = f"Mend the file{'' if skip_bad is None else skipping}."
        raise UserError(f"{location}: {_list_bad_rows(raw, sorted(bad))}\n{advice}")
    found = Dataset(raw, labels)
    usable = len(found) if reader is None else int(found.labelled.sum())
    if not usable:
        raise UserError(f"{location}: no usable row in {', '.join(raw.sources)}.")
    if not blanks and usable < len(found):
        found = found.take(np.flatnonzero(found.labelled))
    found.skipped = len(bad)
    return found


def _read_labels(raw: Table, reader: LabelReader, bad: list[BadRow], blanks: bool) -> np.ndarray:
    """Each distinct label of a piece is understood once. Rows whose label is not are added to `bad`."""
    labels = reader.unlabelled(len(raw))
    first = 0
    for part in raw.labels.parts() if raw.labels is not None else ():
        coded = part.dictionary_encode()
        codes, words = coded.indices.to_numpy(), coded.dictionary.to_pylist()
        values, faults = reader.unlabelled(len(words)), dict[int, str]()
        for code, word in enumerate(words):
            if blanks and not word:
                continue
            try:
                values[code] = reader.read(word)
            except BadLabel as fault:
                faults[code] = str(fault)
        labels[first : first + len(part)] = values[codes]
        for at in np.flatnonzero(np.isin(codes, list(faults))).tolist() if faults else ():
            bad.append(BadRow(int(raw.files[first + at]), int(raw.lines[first + at]), faults[int(codes[at])]))
        first += len(part)
    return labels


def _list_bad_rows(raw: Table, bad: list[BadRow]) -> str:
    rows = "1 bad row" if len(bad) == 1 else f"{len(bad)} bad rows"
    shown = "".join(f"\n  {raw.sources[one.file]}:{one.line}: {one.reason}" for one in bad[:SHOWN_BAD_ROWS])
    more = f"\n  … and {len(bad) - SHOWN_BAD_ROWS} more" if len(bad) > SHOWN_BAD_ROWS else ""
    return f"{rows} of {len(raw) + len(raw.bad)}:{shown}{more}"
