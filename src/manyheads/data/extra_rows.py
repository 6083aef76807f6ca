"""Extra rows of a task: none whose text is held out, and each text of a tree's phrases once.

A source is extra where it says `leave_out`, which phrases of trees do by themselves. Texts are compared in a normal
form: no treebank escapes, no upper case, one space between words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from manyheads.config.task import LeftOutSplit, Source
from manyheads.data.dataset import Dataset
from manyheads.data.table import Table
from manyheads.data.trees import undo_escapes
from manyheads.storage.strings import Strings

TextKey = tuple[str, ...]  # the texts of a row in normal form
NO_TEXT = -1  # in place of a text's number, of rows that are not extra


def normal_form(text: str) -> str:
    """Equal for texts that differ in case, spaces or treebank escapes only."""
    return " ".join(undo_escapes(text).casefold().split())


def text_keys(texts: tuple[Strings, ...], symmetric: bool) -> list[TextKey]:
    """The normal form of each row's texts; of a pair without order, in alphabetical order."""
    columns = [map(normal_form, column) for column in texts]
    keys: list[TextKey] = list(zip(*columns, strict=True))
    if symmetric:
        keys = [tuple(sorted(key)) for key in keys]
    return keys


class ExtraRows:
    """The rows of a task's extra sources, and what is left out of them. `left_out` counts it, source by source."""

    def __init__(self, sources: Sequence[Source], table: Table, symmetric: bool = False) -> None:
        self.sources, self.table, self.symmetric = sources, table, symmetric
        self.numbers = [number for number, source in enumerate(sources) if source.left_out_splits]
        self.left_out: Counter[int] = Counter()
        self.repeated: Counter[int] = Counter()
        rows = np.flatnonzero(np.isin(table.files, self.numbers))
        keys = text_keys(tuple(column.take(rows) for column in table.texts), symmetric)
        self._number_of: dict[TextKey, int] = {}
        self._texts = np.full(len(table), NO_TEXT, dtype=np.int64)  # [rows of the table] the number of its text
        self._texts[rows] = [self._number_of.setdefault(key, len(self._number_of)) for key in keys]
        self._sentences = self._texts.copy()  # of a phrase, that of its whole sentence, which is the first of its line
        self._sentences[rows] = self._texts[rows[_first_of_line(table.files[rows], table.lines[rows])]]

    def are_base(self, dataset: Dataset) -> np.ndarray:
        """[rows] whether each is of a source that is not extra. Where all are extra, all are base."""
        is_base = ~np.isin(dataset.files, self.numbers)
        return is_base if is_base.any() else np.ones(len(dataset), dtype=bool)

    def leave_out(self, train: Dataset, held_out: tuple[Strings, ...], split: LeftOutSplit) -> Dataset:
        """Without rows whose text, or whose tree's whole sentence, is held out; of the sources that name the split."""
        naming = [number for number in self.numbers if split in self.sources[number].left_out_splits]
        if not naming:
            return train
        numbers = {self._number_of.get(key, NO_TEXT) for key in text_keys(held_out, self.symmetric)} - {NO_TEXT}
        held_out_numbers = np.array(sorted(numbers), dtype=np.int64)
        rows = train.raw_rows
        is_out = np.isin(self._texts[rows], held_out_numbers) | np.isin(self._sentences[rows], held_out_numbers)
        is_out &= np.isin(train.files, naming)
        self.left_out.update(train.files[is_out].tolist())
        return train.take(np.flatnonzero(~is_out)) if is_out.any() else train

    def text_groups(self, train: Dataset) -> np.ndarray:
        """[rows] the same number for rows that say the same, extra or not: equal texts, and the phrases of a tree."""
        from scipy import sparse  # of which few recipes have any use

        texts, sentences = self._texts[train.raw_rows], self._sentences[train.raw_rows]
        others = np.flatnonzero(texts == NO_TEXT)
        number_of = dict(self._number_of)
        keys = text_keys(tuple(column.take(others) for column in train.texts), self.symmetric)
        texts[others] = [number_of.setdefault(key, len(number_of)) for key in keys]
        sentences[others] = texts[others]
        pairs = (np.ones(len(texts), dtype=bool), (texts, sentences))
        size = len(number_of)
        _, component_of_text = sparse.csgraph.connected_components(sparse.coo_matrix(pairs, (size, size)), False)
        groups: np.ndarray = np.unique(component_of_text[texts], return_inverse=True)[1]
        return groups

    def leave_out_repeats(self, train: Dataset) -> Dataset:
        """Of phrases, each text with each label once: the first that is left."""
        numbers = [number for number in self.numbers if self.sources[number].phrases]
        labels = self.table.labels
        if not numbers or labels is None:
            return train
        candidates = np.flatnonzero(np.isin(train.files, numbers))
        rows = train.raw_rows[candidates]
        seen: set[tuple[int, str]] = set()
        repeats: list[int] = []
        for position, text, label in zip(
            candidates.tolist(), self._texts[rows].tolist(), labels.take(rows), strict=True
        ):
            if (text, label) in seen:
                repeats.append(position)
            seen.add((text, label))
        self.repeated.update(train.files[repeats].tolist())
        return train.take(np.setdiff1d(np.arange(len(train)), repeats)) if repeats else train

    def notes(self, train: Dataset) -> Iterable[str]:
        """What became of each extra source's rows: a sentence each."""
        for number in self.numbers:
            source = self.sources[number]
            kept, total = int((train.files == number).sum()), int((self.table.files == number).sum())
            splits = " or ".join(source.left_out_splits)
            held_out = f"{self.left_out[number]:,} left out whose text is held out ({splits})"
            repeats = f", {self.repeated[number]:,} that repeat an earlier one" if source.phrases else ""
            yield f"{self.table.sources[number]}: {kept:,} of {total:,} rows; {held_out}{repeats}"


def _first_of_line(files: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """[rows] the first row that stands in the same line of the same file; rows are in the order of the files."""
    begins = np.ones(len(lines), dtype=bool)
    begins[1:] = (lines[1:] != lines[:-1]) | (files[1:] != files[:-1])
    return np.maximum.accumulate(np.where(begins, np.arange(len(lines)), 0))
