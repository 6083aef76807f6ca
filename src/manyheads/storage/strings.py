"""Columns of strings as Arrow lays them out: all bytes end to end, and where each string starts.

Those of a large file lie on disk, next to each other in `NAME.bin` and `NAME.starts`. They are mapped anew for every
piece that is read, so that what was read does not stay in memory; and some of the rows are a list of their numbers.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manyheads.storage.files import mapped

PIECE = 100_000  # strings that are looked at together


@dataclass(frozen=True)
class Strings:
    """Strings in memory or in files; all of them, or some rows of them."""

    source: pa.LargeStringArray | StringFiles
    rows: np.ndarray | None = None

    @classmethod
    def of(cls, strings: Iterable[str]) -> Strings:
        return cls(pa.array(strings, type=pa.large_string()))

    def __len__(self) -> int:
        if self.rows is not None:
            return len(self.rows)
        return len(self.source)

    def __getitem__(self, row: int) -> pa.LargeStringScalar:
        return self._all()[row if self.rows is None else int(self.rows[row])]

    def take(self, rows: np.ndarray) -> Strings:
        """Some rows, by their number here. Nothing is copied but numbers."""
        return Strings(self.source, rows if self.rows is None else self.rows[rows])

    def parts(self, size: int | None = None) -> Iterator[pa.LargeStringArray]:
        """Piece by piece, in order."""
        size = size or PIECE
        for first in range(0, len(self), size):
            if self.rows is None:
                yield self._all().slice(first, size)
            else:
                yield self._all().take(pa.array(self.rows[first : first + size]))

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(part.to_pylist() for part in self.parts())

    def to_pylist(self) -> list[str]:
        return list(self)

    def distinct(self) -> Strings:
        """Each string once, in the order in which they come."""
        return Strings(pc.unique(pa.chunked_array(self.parts(), type=pa.large_string())))

    def remember(self, what: str, compute: Callable[[], str]) -> str:
        """What `compute` says of these strings; of those in files it is asked once, and its answer is kept there."""
        if not isinstance(self.source, StringFiles):
            return compute()
        key = hashlib.sha256(f"{what} {self.source.location.name}".encode())
        if self.rows is not None:
            key.update(np.ascontiguousarray(self.rows).data)
        file = self.source.location.with_name(f"{key.hexdigest()[:32]}.known")
        if file.is_file():
            return file.read_text()
        prediction = compute()
        aside = file.with_suffix(f".{os.getpid()}")
        with suppress(OSError):  # else it is computed again the next time
            aside.write_text(prediction)
            aside.replace(file)
        return prediction

    def _all(self) -> pa.LargeStringArray:
        return self.source.map() if isinstance(self.source, StringFiles) else self.source


class StringFiles:
    """A column's files, held open: they can be read to the end even if the cache is deleted meanwhile."""

    def __init__(self, location: Path) -> None:
        self.location = location  # without the endings
        self._starts, self._content = (location.with_suffix(ending).open("rb") for ending in (".starts", ".bin"))
        self._count = location.with_suffix(".starts").stat().st_size // 8 - 1

    def __len__(self) -> int:
        return self._count

    def __del__(self) -> None:
        for file in (self._starts, self._content):
            file.close()

    def map(self) -> pa.LargeStringArray:
        """All strings, read from the files when they are looked at."""
        starts = mapped(self._starts, np.int64, self._count + 1)
        content = mapped(self._content, np.uint8, int(starts[-1]))
        return pa.LargeStringArray.from_buffers(self._count, pa.py_buffer(starts), pa.py_buffer(content))


class StringsWriter(AbstractContextManager["StringsWriter"]):
    """Writes a column's files, piece by piece."""

    def __init__(self, location: Path) -> None:
        self._open = ExitStack()
        self._content = self._open.enter_context(location.with_suffix(".bin").open("wb"))
        self._starts = self._open.enter_context(location.with_suffix(".starts").open("wb"))
        self._end = 0
        np.zeros(1, dtype=np.int64).tofile(self._starts)

    def append(self, strings: list[str]) -> None:
        array = pa.array(strings, type=pa.large_string())
        lengths = pc.binary_length(array).to_numpy()
        size = int(lengths.sum())
        if size:
            self._content.write(array.buffers()[2].slice(0, size))
        (self._end + np.cumsum(lengths, dtype=np.int64)).tofile(self._starts)
        self._end += size

    def __exit__(self, *fault: Any) -> None:
        self._open.close()
