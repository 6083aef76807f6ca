"""A part of the rows held out, such that no text stands on both sides."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manyheads.data.dataset import Dataset


def text_groups(dataset: Dataset) -> np.ndarray:
    """[rows] the same number for rows whose texts are equal, both texts of a pair."""
    groups = np.zeros(len(dataset), dtype=np.int64)
    for column in dataset.texts:
        strings = pa.chunked_array(column.parts(), type=pa.large_string())
        codes = pc.dictionary_encode(strings).combine_chunks().indices.to_numpy(zero_copy_only=False)
        groups = groups * (int(codes.max(initial=0)) + 1) + codes
        groups = np.unique(groups, return_inverse=True)[1]  # small again, for the next column
    return groups


def hold_out_rows(dataset: Dataset, order: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows that stay, rows held out), each ascending: at most `count` rows, text by text in the given random order.

    A text with more rows than there is room for stays. Where every text has, rows are held out one by one.
    """
    groups = text_groups(dataset)
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
