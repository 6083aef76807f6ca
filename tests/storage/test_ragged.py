"""Rows of different lengths, beside plain lists of lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from manyheads.storage.ragged import Ragged

LISTS = st.lists(st.lists(st.integers(-9, 9), max_size=4), max_size=8)


def as_lists(ragged: Ragged) -> list[list[int]]:
    return [row.tolist() for row in ragged]


@given(LISTS, st.data())
def test_rows_are_those_of_a_list_of_lists(rows: list[list[int]], data: st.DataObject) -> None:
    ragged = Ragged.from_rows(rows, np.int32)
    assert ragged.values.dtype == np.int32
    assert as_lists(ragged) == rows
    assert (len(ragged), ragged.lengths.tolist()) == (len(rows), [len(row) for row in rows])
    assert [ragged[index].tolist() for index in range(len(rows))] == rows
    index = st.lists(st.integers(-len(rows), len(rows) - 1)) if rows else st.just([])
    chosen = data.draw(index)
    some_rows = ragged[np.array(chosen, dtype=np.int64)]
    assert as_lists(some_rows) == [rows[number] for number in chosen]
    mask = np.array([number % 2 == 0 for number in range(len(rows))], dtype=bool)
    assert as_lists(ragged[mask]) == rows[::2]


def test_rows_of_vectors() -> None:
    ragged = Ragged.from_rows([np.ones((2, 3)), np.zeros((0, 3)), np.full((1, 3), 2.0)], np.float32)
    assert ragged.values.shape == (3, 3)
    assert ragged[np.array([2, 0])].values.tolist() == [[2.0] * 3, [1.0] * 3, [1.0] * 3]
    assert ragged[1].shape == (0, 3)
