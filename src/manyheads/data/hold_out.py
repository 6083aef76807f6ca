"""A part of the rows held out, such that no text stands on both sides."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manyheads.data.dataset import Dataset
from manyheads.storage.strings import Strings


def text_groups(dataset: Dataset, symmetric: bool = False) -> np.ndarray:
    """[rows] the same number for rows whose texts are equal, both texts of a pair; `symmetric`: in either order."""
    groups = np.zeros(len(dataset), dtype=np.int64)
    columns = [_codes(column) for column in dataset.texts]
    if symmetric:
        columns = list(np.sort(_codes(*dataset.texts).reshape(2, -1), axis=0))
    for codes in columns:
        groups = groups * (int(codes.max(initial=0)) + 1) + codes
        groups = np.unique(groups, return_inverse=True)[1]  # small again, for the next column
    return groups


def _codes(*columns: Strings) -> np.ndarray:
    """The same number for equal strings, of all columns one after the other."""
    parts = [part for column in columns for part in column.parts()]
    strings = pa.chunked_array(parts, type=pa.large_string())
    codes: np.ndarray = pc.dictionary_encode(strings).combine_chunks().indices.to_numpy(zero_copy_only=False)
    return codes


def hold_out_rows(
    dataset: Dataset, order: np.ndarray, count: int, symmetric: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """(rows that stay, rows held out), each ascending: at most `count` rows, text by text in the given random order.

    A text with more rows than there is room for stays. Where every text has, rows are held out one by one.
    """
    groups = text_groups(dataset, symmetric)
    sizes = np.bincount(groups)
    first_positions = np.unique(groups[order], return_index=True)[1]
    drawn = groups[order][np.sort(first_positions)]  # each text once, in the order
    room, chosen = count, np.zeros(len(sizes), dtype=bool)
    for group in drawn.tolist():
        if sizes[group] <= room:
            chosen[group] = True
            room -= int(sizes[group])
            if not room:
                break
    held_out = chosen[groups]
    if not held_out.any():
        held_out[order[:count]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
