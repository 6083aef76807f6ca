"""A task's rows, checked: texts that are there, labels that mean something. Bad rows are reported, never lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.config.task import Source
from manyheads.data.labels import BadLabel, LabelReader, is_labelled
from manyheads.data.readers import name_lines, source_name
from manyheads.data.rows import usable_rows
from manyheads.data.table import (
    BadRow,
    Columns,
    Table,
    hold_rows,
    rows_fingerprint,
    rows_of_entry,
    write_rows,
)
from manyheads.data.table import label_columns as label_columns  # for whoever reads Columns
from manyheads.errors import UserError
from manyheads.storage.cache import CacheNotWritable, EntryWriter, cached
from manyheads.storage.ragged import Column, join_columns, replace_rows
from manyheads.storage.strings import Strings

SHOWN_BAD_ROWS = 20


@dataclass
class Dataset:
    """Rows of one split, or some of them: a list of row numbers, so that no text is ever copied."""

    raw: Table
    # [rows] class indices (int64) or numbers (float64), or [rows, classes] 0 and 1 (int64), or a class index per word
    labels: Column | None
    row_numbers: np.ndarray | None = None  # which rows of `raw` these are; None: all
    bad: list[BadRow] = field(default_factory=list)  # rows that were dropped

    def __len__(self) -> int:
        if self.row_numbers is None:
            return len(self.raw)
        return len(self.row_numbers)

    @property
    def skipped(self) -> int:
        """How many bad rows were dropped."""
        return len(self.bad)

    @property
    def texts(self) -> tuple[Strings, ...]:
        return tuple(self._rows_of(column) for column in self.raw.texts)

    @property
    def ids(self) -> Strings:
        return self._rows_of(self.raw.ids)

    @property
    def lines(self) -> np.ndarray:
        """[rows] where each row stands in its file."""
        if self.row_numbers is None:
            return self.raw.lines
        return self.raw.lines[self.row_numbers]

    @property
    def raw_rows(self) -> np.ndarray:
        """[rows] which rows of `raw` these are."""
        if self.row_numbers is None:
            return np.arange(len(self.raw))
        return self.row_numbers

    @property
    def files(self) -> np.ndarray:
        """[rows] which of `raw.sources` each is of."""
        files: np.ndarray = self.raw.files[self.raw_rows]
        return files

    @property
    def indents(self) -> np.ndarray | None:
        """[rows] where each text stood in its cell; see `Table`."""
        return None if self.raw.indents is None else self.raw.indents[self.raw_rows]

    @property
    def negatives(self) -> Strings | None:
        """[rows] the wrong answers of each; see `Table`."""
        return None if self.raw.negatives is None else self._rows_of(self.raw.negatives)

    @cached_property
    def labelled(self) -> np.ndarray:
        """[rows] whether this task has a label there: rows that several tasks read may lack some of them."""
        if self.labels is None:
            return np.zeros(len(self), dtype=bool)
        return is_labelled(self.labels)

    @cached_property
    def labelled_rows(self) -> np.ndarray:
        """The numbers of the labelled rows."""
        return np.flatnonzero(self.labelled)

    def take(self, indices: np.ndarray) -> Dataset:
        """Some rows, by their number here."""
        labels = None if self.labels is None else self.labels[indices]
        if self.row_numbers is not None:
            indices = self.row_numbers[indices]
        return Dataset(self.raw, labels, indices)

    def location(self, row: int) -> str:
        """'file:line' of a row, for messages."""
        if self.row_numbers is not None:
            row = int(self.row_numbers[row])
        return self.raw.location(row)

    def _rows_of(self, column: Strings) -> Strings:
        if self.row_numbers is None:
            return column
        return column.take(self.row_numbers)


def read_rows(sources: list[Source], root: Path, split: str, columns: Columns, location: str) -> Table:
    """All rows of a split whose texts are there. Labels are kept as the file has them."""
    names = tuple(source_name(source, split) for source in sources)
    sources = [name_lines(source, columns.text, columns.label) for source in sources]
    bad: list[BadRow] = []
    fingerprint = rows_fingerprint(sources, root, columns)
    if fingerprint is not None:

        def write(writer: EntryWriter) -> None:
            write_rows(writer, usable_rows(sources, root, split, columns, location, bad), columns, bad)
            if rows_fingerprint(sources, root, columns) != fingerprint:  # else its name would be a lie for ever
                raise UserError(
                    f"{location}: {' or '.join(names)} was changed while it was read. Run again when it is whole.",
                    code="file-changed",
                )

        try:
            return rows_of_entry(cached("rows", fingerprint, write), columns, names)
        except CacheNotWritable:
            bad.clear()  # then they are held in memory
    return hold_rows(usable_rows(sources, root, split, columns, location, bad), columns, names, bad)


def label_rows(
    raw: Table, reader: LabelReader | None, skip_bad: bool | None, location: str, blanks: bool = False
) -> Dataset:
    """Rows with their labels read. Bad rows stop here with a list of the first ones, unless they are to be skipped.

    `location` says which key of the recipe asked for the data; `reader` None means that labels are not wanted;
    `skip_bad` None means that there is no recipe in which to ask for skipping. `blanks`: several tasks read these
    rows, so a row without this task's label is kept, unlabelled, and so is one with a bad label that is skipped.
    """
    labels = None
    bad = list(raw.bad)
    if reader is not None:
        labels = _read_labels(raw, reader, bad, blanks)
    if bad and not skip_bad:
        advice = "Mend the file."
        if skip_bad is not None:
            advice = "Mend the file, or set `bad_rows: skip` (for the task, or under `data`) to leave them out."
        raise UserError(f"{location}: {_list_bad_rows(raw, sorted(bad))}\n{advice}", code="bad-rows")
    dataset = Dataset(raw, labels)
    usable = len(dataset)
    if reader is not None:
        usable = int(dataset.labelled.sum())
    if not usable:
        raise UserError(f"{location}: no usable row in {', '.join(raw.sources)}.", code="no-rows")
    if not blanks and usable < len(dataset):
        dataset = dataset.take(np.flatnonzero(dataset.labelled))
    dataset.bad = sorted(bad)
    return dataset


def _read_labels(raw: Table, reader: LabelReader, bad: list[BadRow], blanks: bool) -> Column:
    """Rows whose label is not understood are unlabelled, and added to `bad`."""
    return join_columns(_labels_by_piece(raw, reader, bad, blanks), reader.unlabelled(len(raw)))


def _labels_by_piece(raw: Table, reader: LabelReader, bad: list[BadRow], blanks: bool) -> Iterator[Column]:
    """Each distinct label of a piece is read once."""
    first = 0
    for part in raw.labels.parts() if raw.labels is not None else ():
        coded = part.dictionary_encode()
        codes, words = coded.indices.to_numpy(), coded.dictionary.to_pylist()
        values, faults = dict[int, Any](), dict[int, str]()
        for code, word in enumerate(words):
            if blanks and not word:
                continue
            try:
                values[code] = reader.read(word)
            except BadLabel as fault:
                faults[code] = str(fault)
        yield replace_rows(reader.unlabelled(len(words)), values)[codes]
        for at in np.flatnonzero(np.isin(codes, list(faults))).tolist() if faults else ():
            bad.append(BadRow(int(raw.files[first + at]), int(raw.lines[first + at]), faults[int(codes[at])]))
        first += len(part)


def count_repairs(raw: Table, reader: LabelReader) -> int:
    """How many tags of all rows break the rules of their scheme; see `Kind.count_repairs`."""
    if reader.scheme is None or raw.labels is None:
        return 0
    repairs = 0
    for part in raw.labels.parts():
        for counted in part.value_counts().to_pylist():
            repairs += counted["counts"] * reader.rules.count_repairs(counted["values"], reader)
    return repairs


def _list_bad_rows(raw: Table, bad: list[BadRow]) -> str:
    rows = "1 bad row" if len(bad) == 1 else f"{len(bad)} bad rows"
    advice = _common_advice(bad)
    lines = [f"{rows} of {len(raw) + len(raw.bad)}:"]
    for row in bad[:SHOWN_BAD_ROWS]:
        lines.append(f"  {raw.sources[row.file]}:{row.line}: {row.reason.removesuffix(advice)}")
    if len(bad) > SHOWN_BAD_ROWS:
        lines.append(f"  … and {len(bad) - SHOWN_BAD_ROWS} more")
    if advice:
        lines.append(f"{advice[2].upper()}{advice[3:]}.")
    return "\n".join(lines)


def _common_advice(bad: list[BadRow]) -> str:
    """What all reasons of several bad rows say at their end, from the '; ' on: it is said once."""
    ends = {row.reason[row.reason.rindex("; ") :] if "; " in row.reason else "" for row in bad}
    return ends.pop() if len(bad) > 1 and len(ends) == 1 else ""
