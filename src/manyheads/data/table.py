"""A split's rows as its files have them. Those of large files are parsed once and kept in the cache, memory-mapped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from manyheads.config.task import TREE_KEYS, Source
from manyheads.data.answers import AnswerColumns
from manyheads.data.choices import ChoiceColumns
from manyheads.data.readers import file_format, find_file
from manyheads.data.words import WordRule
from manyheads.errors import UserError
from manyheads.storage.cache import Entry, EntryWriter
from manyheads.storage.files import file_sha256
from manyheads.storage.strings import CachedStrings, Strings, append_strings

LARGE = 10_000_000  # bytes of a split's files, from which on keeping its rows pays
LAYOUT = "1"  # changes with what is read of a file and how it is kept


@dataclass(frozen=True)
class Columns:
    """Which columns of a task's files are read."""

    text: tuple[str, ...]
    label: str | tuple[str, ...] | None  # several: a yes-or-no column per class; None: labels are not wanted
    id: str | None  # None: 'id' where the file has it, else the row's number
    words: WordRule | None = None  # how plain texts are cut into words, where each word has a label; else None
    answers: AnswerColumns | None = None  # where labels are parts of the second text
    choices: ChoiceColumns | None = None  # where the second text is a row's candidates
    negatives: tuple[str, ...] = ()  # columns of wrong answers to the first text: a text each, or a list of them


def has_indents(columns: Columns) -> bool:
    """Whether it matters where a text stood in its cell: predictions have places in it."""
    return columns.words is not None or columns.answers is not None


def label_columns(columns: Columns) -> tuple[str, ...]:
    """The columns that labels are read from."""
    if columns.label is None:
        return ()
    if isinstance(columns.label, str):
        return (columns.label,)
    return columns.label


def text_columns(columns: Columns) -> tuple[str, ...]:
    """The columns that texts are read from, candidates included."""
    return question_columns(columns) + (() if columns.choices is None else columns.choices.candidates)


def question_columns(columns: Columns) -> tuple[str, ...]:
    """The text columns as a recipe names them: without candidates, which have a key of their own."""
    if columns.choices is None:
        return columns.text
    if columns.choices.question is None:
        return columns.text[:1]
    return (columns.text[0], columns.choices.question)


class BadRow(NamedTuple):
    """Where a row that cannot be used stands, and why it cannot."""

    file: int
    line: int
    reason: str


@dataclass
class TableChunk:
    """Some usable rows of one file, column by column."""

    file: int
    texts: tuple[list[str], ...]
    labels: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    indents: list[int] = field(default_factory=list)  # where words have labels; see `Table`
    negatives: list[str] = field(default_factory=list)  # where they are asked for; see `Table`


@dataclass(frozen=True)
class Table:
    """Rows before their labels are understood."""

    texts: tuple[Strings, ...]
    labels: Strings | None  # as normalised words; None where they are not wanted
    ids: Strings
    lines: np.ndarray  # [rows] where each row stands in its file
    files: np.ndarray  # [rows] index into `sources`
    sources: tuple[str, ...]
    bad: list[BadRow]
    # [rows] how many characters stood before the text in its cell; see `GIVEN` for words of a list. None where nobody
    # asks for words
    indents: np.ndarray | None = None
    negatives: Strings | None = None  # a row's wrong answers as `join_texts` writes them; None where nobody asks

    def __len__(self) -> int:
        return len(self.lines)

    def location(self, row: int) -> str:
        """'file:line' of a row, for messages."""
        return f"{self.sources[self.files[row]]}:{self.lines[row]}"

    def distinct_labels(self) -> Iterator[str]:
        if self.labels is not None:
            yield from self.labels.distinct()


def hold_rows(pieces: Iterator[TableChunk], columns: Columns, sources: tuple[str, ...], bad: list[BadRow]) -> Table:
    """Rows in memory. `bad` is filled while the pieces are read."""
    parts: dict[str, list[pa.Array]] = {name: [] for name in _names(columns)}
    lines, files = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int16)]
    indents = [np.empty(0, dtype=np.int32)]
    for piece in pieces:
        for name, strings in _strings(piece, columns).items():
            parts[name].append(pa.array(strings, type=pa.large_string()))
        lines.append(np.array(piece.lines, dtype=np.int64))
        files.append(np.full(len(piece.lines), piece.file, dtype=np.int16))
        indents.append(np.array(piece.indents, dtype=np.int32))
    strings_by_name: dict[str, Strings] = {}
    for name, arrays in parts.items():
        strings_by_name[name] = Strings(pa.chunked_array(arrays, type=pa.large_string()).combine_chunks())
    table = _table(strings_by_name, (np.concatenate(lines), np.concatenate(files)), sources, bad)
    return table if not has_indents(columns) else replace(table, indents=np.concatenate(indents))


# --- kept in the cache -----------------------------------------------------------------------------------------


def rows_fingerprint(sources: list[Source], root: Path, columns: Columns) -> str | None:
    """The name of these files' rows in the cache, by what is in the files; None where keeping them does not pay."""
    paths: list[Path] = []
    for source in sources:
        path = None if source.file is None else find_file(source, root)
        if path is None:
            return None
        paths.append(path)
    if sum(path.stat().st_size for path in paths) < LARGE:
        return None
    try:
        contents = []
        for source, path in zip(sources, paths, strict=True):
            layout = (file_format(source, path), path.suffix == ".gz", source.columns, source.quoting)
            contents.append((file_sha256(path), *layout, *source.changed(TREE_KEYS).items()))
    except UserError:
        return None  # whoever reads it will say what is wrong with it
    return hashlib.sha256(json.dumps([LAYOUT, contents, astuple(columns)]).encode()).hexdigest()[:32]


def write_rows(writer: EntryWriter, pieces: Iterator[TableChunk], columns: Columns, bad: list[BadRow]) -> None:
    """Write rows as they are read; never are all of them in memory. `bad` is filled while the pieces are read."""
    no_rows = TableChunk(0, tuple([] for _ in columns.text))
    for piece in chain([no_rows], pieces):
        for name, strings in _strings(piece, columns).items():
            append_strings(writer, name, strings)
        writer.append("lines", np.array(piece.lines, dtype=np.int64))
        writer.append("files", np.full(len(piece.lines), piece.file, dtype=np.int16))
        if has_indents(columns):
            writer.append("indents", np.array(piece.indents, dtype=np.int32))
    writer.notes["bad"] = bad


def rows_of_entry(entry: Entry, columns: Columns, sources: tuple[str, ...]) -> Table:
    """Rows as they were read."""
    strings_by_name = {name: Strings(CachedStrings(entry, name)) for name in _names(columns)}
    bad = [BadRow(*fields) for fields in entry.notes["bad"]]
    table = _table(strings_by_name, (entry.column("lines"), entry.column("files")), sources, bad)
    return table if not has_indents(columns) else replace(table, indents=entry.column("indents"))


def _names(columns: Columns) -> list[str]:
    """The columns of strings as they are stored."""
    names = [f"text-{number}" for number in range(len(columns.text))]
    names.append("id")
    if columns.negatives:
        names.append("negatives")
    if columns.label is not None:
        names.append("label")
    return names


def _strings(piece: TableChunk, columns: Columns) -> dict[str, list[str]]:
    """A piece's columns of strings by their names; labels come last and may not be columns."""
    negatives = [piece.negatives] if columns.negatives else []
    return dict(zip(_names(columns), [*piece.texts, piece.ids, *negatives, piece.labels], strict=False))


def _table(
    strings: dict[str, Strings], lines_files: tuple[np.ndarray, np.ndarray], sources: tuple[str, ...], bad: list[BadRow]
) -> Table:
    texts = tuple(column for name, column in strings.items() if name.startswith("text-"))
    table = Table(texts, strings.get("label"), strings["id"], *lines_files, sources, bad)
    return replace(table, negatives=strings["negatives"]) if "negatives" in strings else table
