"""Train in folds, such that no text stands in two of them."""

from __future__ import annotations

import numpy as np

from manyheads.data.dataset import Dataset
from manyheads.data.hold_out import text_groups
from manyheads.seeding import generator


def fold_of_rows(dataset: Dataset, folds: int, name: str) -> np.ndarray:
    """[rows] the fold of each row, from 0; the same for every seed. `name` is whose rows these are.

    Texts are laid end to end in a random order, each with all its rows; cut into `folds` equal lengths, the cut in
    which a text begins is its fold. So folds differ in size by no more than the rows of a text.
    """
    groups = text_groups(dataset)
    sizes = np.bincount(groups)
    order = generator(0, "folds", folds, name).permutation(len(sizes))
    rows_before = np.empty(len(sizes), dtype=np.int64)
    rows_before[order] = np.cumsum(sizes[order]) - sizes[order]
    fold_of_group = rows_before * folds // len(dataset)
    return fold_of_group[groups]
