"""A file's rows piece by piece, with their line numbers."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

CHUNK = 10_000  # rows


@dataclass(frozen=True)
class Chunk:
    """Some rows of one source. `cells[i]` holds a row in the order of `columns`; None where it is malformed."""

    columns: list[str]
    cells: list[list[Any] | None]
    lines: list[int]
    faults: list[str]  # one reason per malformed row, in order


def with_rows(chunk: Chunk, rewrite: Callable[[list[Any]], list[Any]]) -> Chunk:
    """The chunk with every row rewritten; a row of which `rewrite` says in a ValueError what is wrong is malformed."""
    faults = iter(chunk.faults)
    rows: list[list[Any] | None] = []
    all_faults: list[str] = []
    for cells in chunk.cells:
        if cells is None:
            rows.append(None)
            all_faults.append(next(faults))
            continue
        try:
            rows.append(rewrite(cells))
        except ValueError as fault:
            rows.append(None)
            all_faults.append(str(fault))
    return replace(chunk, cells=rows, faults=all_faults)


# a row as a reader meets it: its line, its cells, and what is wrong with it where it has none. A plain tuple: there may
# be millions
Row = tuple[int, list[Any] | None, str]


def in_chunks(columns: list[str], rows: Iterable[Row]) -> Iterator[Chunk]:
    """Rows as chunks, at least one. `columns` may grow while rows are read: a chunk has those of its last row."""
    rows = iter(rows)
    while True:
        cells_by_row: list[list[Any] | None] = []
        lines: list[int] = []
        faults: list[str] = []
        for line, cells, fault in islice(rows, CHUNK):
            cells_by_row.append(cells)
            lines.append(line)
            if cells is None:
                faults.append(fault)
        yield Chunk(list(columns), cells_by_row, lines, faults)
        if len(lines) < CHUNK:
            return


def open_bytes(path: Path) -> IO[bytes]:
    """A file's content, compressed or not."""
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    return path.open("rb")
