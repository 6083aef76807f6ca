"""Vectors of a file's texts, written as they come: npy, or parquet with ids. No file is there before it is whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from manyheads.config.task import Source
from manyheads.data.advice import shown_names
from manyheads.data.dataset import Dataset, label_rows
from manyheads.data.readers import is_lines
from manyheads.data.recognise import recognise_texts
from manyheads.data.rows import usable_rows
from manyheads.data.table import BadRow, Columns, hold_rows
from manyheads.errors import UserError
from manyheads.inference.texts import LINE_OF_TEXT, first_chunk

NPY_HEADER = 128  # bytes: room for any number of rows
FORMATS = (".npy", ".parquet")


class VectorWriter(Protocol):
    """Takes the vectors of some texts at a time."""

    def write(self, ids: list[str], vectors: np.ndarray) -> None: ...

    def close(self) -> None: ...


class NpyWriter:
    """[texts, width] float32 as numpy has it; the number of rows is filled in at the end."""

    def __init__(self, file: Path) -> None:
        self.stream = file.open("wb")
        self.rows, self.width = 0, 0
        self.stream.write(bytes(NPY_HEADER))

    def write(self, ids: list[str], vectors: np.ndarray) -> None:
        self.rows, self.width = self.rows + len(vectors), vectors.shape[1]
        self.stream.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())

    def close(self) -> None:
        shape = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({self.rows}, {self.width}), }}"
        length = NPY_HEADER - 10
        header = b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + shape.encode().ljust(length - 1) + b"\n"
        self.stream.seek(0)
        self.stream.write(header)
        self.stream.close()


class ParquetWriter:
    """Columns `id` and `vector`, a list of as many numbers as vectors are wide."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.writer: pq.ParquetWriter | None = None

    def write(self, ids: list[str], vectors: np.ndarray) -> None:
        flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
        table = pa.table({"id": ids, "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])})
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.file, table.schema, compression="zstd")
        self.writer.write_table(table)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


@contextmanager
def vector_writer(file: Path) -> Iterator[VectorWriter]:
    """By the file's ending; the file appears when all is written."""
    if file.suffix not in FORMATS:
        raise UserError(f"--to: expected a file that ends in .npy or .parquet, found {file}.", code="bad-option")
    if not file.parent.is_dir():
        raise UserError(f"--to: no folder {file.parent}.", code="no-such-folder")
    unfinished = file.with_name(f".{file.name}.new")
    writer: VectorWriter = NpyWriter(unfinished) if file.suffix == ".npy" else ParquetWriter(unfinished)
    try:
        yield writer
        writer.close()
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


def write_vectors(
    source: Source, text_columns: Sequence[str] | None, embed: Callable[[Dataset], np.ndarray], file: Path
) -> int:
    """Write the vectors of a file's texts, some thousand rows at a time; returns how many there are."""
    location = str(source.file)
    columns = Columns((_text_column(source, text_columns),), None, None)
    rows = 0
    with vector_writer(file) as writer:
        bad: list[BadRow] = []
        for piece in usable_rows([source], Path.cwd(), "test", columns, location, bad):
            if rows and not piece.lines and not bad:
                continue  # the end of a file whose rows fill its pieces
            table = hold_rows(iter([piece]), columns, (location,), bad)
            examples = label_rows(table, None, None, location)  # bad rows are an error
            writer.write(examples.ids.to_pylist(), embed(examples))
            rows += len(examples)
    return rows


def _text_column(source: Source, named: Sequence[str] | None) -> str:
    """As named; else the one with a usual name, or the only one."""
    if is_lines(source):
        return LINE_OF_TEXT[0]
    names = first_chunk(source).columns
    columns = tuple(named or recognise_texts(names))
    if not named and len(names) == 1:
        columns = (names[0],)
    if len(columns) != 1:
        found = "none" if not columns else ", ".join(columns)
        shown = ", ".join(shown_names(first_chunk(source)))
        reason = f"embed takes one text column, found {found}. Columns: {shown}. Name it: --text-column NAME."
        raise UserError(f"{source.file}: {reason}", code="bad-text-column")
    return columns[0]
