"""A column whose rows have different lengths: all values end to end, and where each row starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

import numpy as np


@dataclass(frozen=True)
class Ragged:
    """Row `i` is `values[starts[i] : starts[i + 1]]`. Both arrays may be memory-mapped."""

    values: np.ndarray  # [values, ...]
    starts: np.ndarray  # [rows + 1]

    @classmethod
    def from_rows(cls, rows: Iterable[Any], dtype: Any) -> Ragged:
        """Any sequences of numbers, or arrays that agree in all axes but the first."""
        arrays = [np.asarray(row, dtype=dtype) for row in rows]
        if not arrays:
            return cls(np.empty(0, dtype=dtype), np.zeros(1, dtype=np.int64))
        return cls(np.concatenate(arrays), starts_of(np.array([len(array) for array in arrays])))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, index: np.ndarray) -> Ragged: ...

    def __getitem__(self, index: int | np.ndarray) -> np.ndarray | Ragged:
        """One row as an array; or, for an array of row numbers or a mask, those rows as another column."""
        firsts, ends = self.starts[:-1][index], self.starts[1:][index]
        if not isinstance(index, np.ndarray):
            return self.values[firsts:ends]
        lengths = ends - firsts
        starts = starts_of(lengths)
        positions = np.arange(starts[-1]) + np.repeat(firsts - starts[:-1], lengths)
        return Ragged(self.values[positions], starts)

    def __iter__(self) -> Iterator[np.ndarray]:
        for index in range(len(self)):
            yield self[index]


Column: TypeAlias = np.ndarray | Ragged  # labels or predictions, example by example


def replace_rows(column: Column, rows: Mapping[int, Any]) -> Column:
    """The column with other values in some rows. An array is written to; a ragged column is made anew."""
    if isinstance(column, Ragged):
        values = [rows[index] if index in rows else column[index] for index in range(len(column))]
        return Ragged.from_rows(values, column.values.dtype)
    for index, value in rows.items():
        column[index] = value
    return column


def join_columns(pieces: Iterable[Column], whole: Column) -> Column:
    """Pieces one after the other: in place of the rows of `whole`, which says what is there without any piece."""
    if isinstance(whole, Ragged):
        ragged = [piece for piece in pieces if isinstance(piece, Ragged)]
        if not ragged:
            return whole
        lengths = np.concatenate([piece.lengths for piece in ragged])
        return Ragged(np.concatenate([piece.values for piece in ragged]), starts_of(lengths))
    first = 0
    for piece in pieces:
        whole[first : first + len(piece)] = piece
        first += len(piece)
    return whole


def starts_of(lengths: np.ndarray) -> np.ndarray:
    """Where rows of these lengths start when they lie end to end, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
