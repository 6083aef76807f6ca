"""Train in folds, such that no text stands in two of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from manyheads.config.task import Fold
from manyheads.data.dataset import Dataset
from manyheads.data.extra_rows import ExtraRows, TextKey, text_keys
from manyheads.data.hold_out import text_groups
from manyheads.seeding import generator
from manyheads.storage.strings import Strings


@dataclass(frozen=True)
class LeftOut:
    """A fold that a model was trained without."""

    fold: Fold
    texts: str  # a hash of its rows' texts: the fold of another train has others

    def to_json(self) -> dict[str, Any]:
        return {**self.fold.model_dump(), "texts": self.texts}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> LeftOut:
        """What `to_json` wrote. A ValueError, TypeError or KeyError where it is something else."""
        fold = {key: saved[key] for key in Fold.model_fields}
        return cls(Fold.model_validate(fold), str(saved["texts"]))


@dataclass(frozen=True)
class Folds:
    """A task's train rows, and what of them belongs together."""

    rows: Dataset
    name: str  # whose rows these are
    symmetric: bool = False  # whether a pair and the same the other way round are one text
    extra_rows: ExtraRows | None = None

    def fold_of_rows(self, folds: int) -> np.ndarray:
        """[rows] the fold of each row, from 0; the same for every seed.

        Texts are laid end to end in a random order, each with all its rows; cut into `folds` equal lengths, the cut in
        which a text begins is its fold. So folds differ in size by no more than the rows of a text.
        """
        groups = self._groups
        sizes = np.bincount(groups)
        order = generator(0, "folds", folds, self.name).permutation(len(sizes))
        rows_before = np.empty(len(sizes), dtype=np.int64)
        rows_before[order] = np.cumsum(sizes[order]) - sizes[order]
        fold_of_group = rows_before * folds // len(self.rows)
        return fold_of_group[groups]

    def contain(self, fold: Fold) -> np.ndarray:
        """[rows] whether each is in this fold."""
        return self.fold_of_rows(fold.of) == fold.number - 1

    def without(self, fold: Fold) -> LeftOut:
        """What a model says that is trained without a fold of these rows."""
        rows = self.rows.take(np.flatnonzero(self.contain(fold)))
        digest = hashlib.sha256()
        for texts in zip(*rows.texts, strict=True):
            digest.update(repr(texts).encode())
        return LeftOut(fold, digest.hexdigest()[:32])

    def are_unseen(self, texts: tuple[Strings, ...], fold: Fold) -> np.ndarray:
        """[texts] whether none of them is that of a row outside a fold: a model trained without it has not seen it."""
        if not len(texts[0]):
            return np.zeros(0, dtype=bool)
        in_fold = self.contain(fold).tolist()
        seen = {key for key, is_left_out in zip(self._row_keys, in_fold, strict=True) if not is_left_out}
        return np.array([key not in seen for key in self._keys(texts)], dtype=bool)

    @cached_property
    def _row_keys(self) -> list[TextKey]:
        return self._keys(self.rows.texts)

    def _keys(self, texts: tuple[Strings, ...]) -> list[TextKey]:
        """Equal for texts that are one text to `_groups`."""
        if self.extra_rows is not None:
            return text_keys(texts, self.symmetric)
        keys: list[TextKey] = list(zip(*texts, strict=True))
        if self.symmetric:
            keys = [tuple(sorted(key)) for key in keys]
        return keys

    @cached_property
    def _groups(self) -> np.ndarray:
        if self.extra_rows is None:
            return text_groups(self.rows, self.symmetric)
        return self.extra_rows.text_groups(self.rows)
