"""A split's rows as its files have them. Those of large files are parsed once and kept in the cache, memory-mapped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from manyheads.config.task import Source
from manyheads.data.readers import file_format, find_file
from manyheads.errors import UserError
from manyheads.storage.files import atomic_directory, cache_folder, file_sha256, mapped
from manyheads.storage.strings import StringFiles, Strings, StringsWriter

LARGE = 10_000_000  # bytes of a split's files, from which on keeping its rows pays
LAYOUT = "1"  # changes with what is read of a file and how it is kept


@dataclass(frozen=True)
class Columns:
    """Which columns of a task's files are read."""

    text: tuple[str, ...]
    label: str | tuple[str, ...] | None  # several: a yes-or-no column per class; None: labels are not wanted
    id: str | None  # None: 'id' where the file has it, else the row's number


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

    def __len__(self) -> int:
        return len(self.lines)

    def location(self, row: int) -> str:
        """'file:line' of a row, for messages."""
        return f"{self.sources[self.files[row]]}:{self.lines[row]}"

    def distinct_labels(self) -> Iterator[str]:
        return iter(()) if self.labels is None else iter(self.labels.distinct())


def hold_rows(pieces: Iterator[TableChunk], wanted: Columns, sources: tuple[str, ...], bad: list[BadRow]) -> Table:
    """Rows in memory. `bad` is filled while the pieces are read."""
    columns: dict[str, list[pa.Array]] = {name: [] for name in _names(wanted)}
    lines, files = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int16)]
    for piece in pieces:
        for parts, strings in zip(columns.values(), _strings(piece, wanted), strict=True):
            parts.append(pa.array(strings, type=pa.large_string()))
        lines.append(np.array(piece.lines, dtype=np.int64))
        files.append(np.full(len(piece.lines), piece.file, dtype=np.int16))
    made = {
        name: Strings(pa.chunked_array(parts, type=pa.large_string()).combine_chunks())
        for name, parts in columns.items()
    }
    return _rows(made, wanted, np.concatenate(lines), np.concatenate(files), sources, bad)


# --- kept in the cache -----------------------------------------------------------------------------------------


def kept_folder(sources: list[Source], root: Path, wanted: Columns) -> Path | None:
    """Where the rows of these files are kept, by what is in the files; None where keeping them does not pay."""
    paths = [find_file(source, root) for source in sources if source.file is not None]
    found = [path for path in paths if path is not None]
    if len(found) < len(sources) or sum(path.stat().st_size for path in found) < LARGE:
        return None
    try:
        read = [(file_sha256(path), file_format(path), path.suffix == ".gz") for path in found]
    except UserError:
        return None  # whoever reads it will say what is wrong with it
    digest = hashlib.sha256(json.dumps([LAYOUT, read, astuple(wanted)]).encode())
    return cache_folder() / "rows" / digest.hexdigest()[:32]


def keep_rows(folder: Path, pieces: Iterator[TableChunk], wanted: Columns, bad: list[BadRow]) -> None:
    """Write rows as they are read; never are all of them in memory."""
    with atomic_directory(folder) as aside:
        with ExitStack() as open_files:
            columns = [open_files.enter_context(StringsWriter(aside / name)) for name in _names(wanted)]
            lines, files = (open_files.enter_context((aside / name).open("wb")) for name in ("lines", "files"))
            for piece in pieces:
                for column, strings in zip(columns, _strings(piece, wanted), strict=True):
                    column.append(strings)
                np.array(piece.lines, dtype=np.int64).tofile(lines)
                np.full(len(piece.lines), piece.file, dtype=np.int16).tofile(files)
        sizes = {file.name: file.stat().st_size for file in aside.iterdir()}
        (aside / "meta.json").write_text(json.dumps({"sizes": sizes, "bad": bad}))


def open_rows(folder: Path, wanted: Columns, sources: tuple[str, ...]) -> Table:
    """Rows that were kept, as they were read."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
        for name, size in meta["sizes"].items():
            if (folder / name).stat().st_size != size:
                raise ValueError(f"{name} has not the size it was written with")
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: the row cache is damaged ({error}). Delete that folder and run again.") from None
    made = {name: Strings(StringFiles(folder / name)) for name in _names(wanted)}
    lines = mapped(folder / "lines", np.int64, meta["sizes"]["lines"] // 8)
    files = mapped(folder / "files", np.int16, meta["sizes"]["files"] // 2)
    return _rows(made, wanted, lines, files, sources, [BadRow(*one) for one in meta["bad"]])


def _names(wanted: Columns) -> list[str]:
    """The columns of strings as they are kept."""
    texts = [f"text-{number}" for number in range(len(wanted.text))]
    return [*texts, "id"] if wanted.label is None else [*texts, "id", "label"]


def _strings(piece: TableChunk, wanted: Columns) -> list[list[str]]:
    """A piece's columns of strings in the order of their names."""
    return [*piece.texts, piece.ids] if wanted.label is None else [*piece.texts, piece.ids, piece.labels]


def _rows(
    made: dict[str, Strings],
    wanted: Columns,
    lines: np.ndarray,
    files: np.ndarray,
    sources: tuple[str, ...],
    bad: list[BadRow],
) -> Table:
    texts = tuple(made[f"text-{number}"] for number in range(len(wanted.text)))
    return Table(texts, made.get("label"), made["id"], lines, files, sources, bad)
