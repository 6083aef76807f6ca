"""Columns of strings as Arrow lays them out: all bytes end to end, and where each string starts.

Those of a large file lie in the cache. They are mapped anew for every piece that is read, so that what was read does
not stay in memory. Some of the rows are a list of their numbers; no string is copied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manyheads.storage.cache import Entry, EntryWriter

PIECE = 100_000  # strings that are looked at together


@dataclass(frozen=True)
class CachedStrings:
    """A column of strings in a cache entry."""

    entry: Entry
    name: str

    def __len__(self) -> int:
        return len(self.entry.column(f"{self.name}_starts")) - 1

    def map(self) -> pa.LargeStringArray:
        """All strings, read from the file when they are looked at."""
        strings = self.entry.ragged(self.name)
        return pa.LargeStringArray.from_buffers(
            len(strings), pa.py_buffer(strings.starts), pa.py_buffer(strings.values)
        )


@dataclass(frozen=True)
class Strings:
    """Strings in memory or in the cache; all of them, or some rows of them."""

    source: pa.LargeStringArray | CachedStrings
    row_numbers: np.ndarray | None = None  # which strings of the source these are; None: all

    @classmethod
    def of(cls, strings: Iterable[str]) -> Strings:
        return cls(pa.array(strings, type=pa.large_string()))

    def __len__(self) -> int:
        if self.row_numbers is not None:
            return len(self.row_numbers)
        return len(self.source)

    def __getitem__(self, index: int) -> pa.LargeStringScalar:
        if self.row_numbers is not None:
            index = int(self.row_numbers[index])
        return self._all()[index]

    def take(self, indices: np.ndarray) -> Strings:
        """Some rows, by their number here. Nothing is copied but numbers."""
        if self.row_numbers is not None:
            indices = self.row_numbers[indices]
        return Strings(self.source, indices)

    def parts(self, size: int | None = None) -> Iterator[pa.LargeStringArray]:
        """Piece by piece, in order."""
        size = size or PIECE
        for first in range(0, len(self), size):
            if self.row_numbers is None:
                yield self._all().slice(first, size)
            else:
                yield self._all().take(pa.array(self.row_numbers[first : first + size]))

    def __iter__(self) -> Iterator[str]:
        for part in self.parts():
            yield from part.to_pylist()

    def to_pylist(self) -> list[str]:
        return list(self)

    def distinct(self) -> Strings:
        """Each string once, in the order in which they come."""
        return Strings(pc.unique(pa.chunked_array(self.parts(), type=pa.large_string())))

    def remember(self, question: str, compute: Callable[[], str]) -> str:
        """What `compute` says of these strings; of strings in the cache it is asked once, and the answer stored."""
        if not isinstance(self.source, CachedStrings):
            return compute()
        rows = "all"
        if self.row_numbers is not None:
            rows = hashlib.sha256(np.ascontiguousarray(self.row_numbers).data).hexdigest()
        return self.source.entry.remember(f"{question} {self.source.name} {rows}", compute)

    def _all(self) -> pa.LargeStringArray:
        if isinstance(self.source, CachedStrings):
            return self.source.map()
        return self.source


def append_strings(writer: EntryWriter, name: str, strings: list[str]) -> None:
    """More strings of a column of a cache entry."""
    array = pa.array(strings, type=pa.large_string())
    lengths = pc.binary_length(array).to_numpy()
    size = int(lengths.sum())
    content = np.empty(0, dtype=np.uint8)
    if size:
        content = np.frombuffer(array.buffers()[2], dtype=np.uint8, count=size)
    writer.append_ragged(name, content, lengths)
