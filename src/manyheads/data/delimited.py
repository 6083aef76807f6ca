"""csv, tsv and txt files: lines that are cut into cells."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from manyheads.config.task import Source
from manyheads.data.chunk import Chunk, Row, in_chunks, open_bytes
from manyheads.errors import UserError

DELIMITERS = ",\t;"
RAREST_FIRST = "\t;,"  # in texts
LOOKED_AT = 100  # lines by which the delimiter of a file without a header is chosen
LINES_COLUMN = "text"  # of a txt file that says nothing of its columns
QUOTES_AS_LETTERS = "where quotes are plain letters, set `quoting: none`"


def read_delimited(path: Path, source: Source, file_format: str) -> Iterator[Chunk]:
    """The rows of a csv or tsv file."""
    csv.field_size_limit(sys.maxsize)
    with open_bytes(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
        quoting: Any = csv.QUOTE_MINIMAL
        if source.quoting == "none":
            quoting = csv.QUOTE_NONE
        delimiter = "\t"
        if file_format == "csv":
            delimiter = _choose_delimiter(list(islice(text, LOOKED_AT)), source.columns, quoting)
            text.seek(0)
        reader = csv.reader(text, delimiter=delimiter, quoting=quoting, strict=True)  # no stray quote may swallow rows
        csv_rows = _rows_with_lines(path, reader)
        if source.columns is None:
            columns, csv_rows = _read_header(path, csv_rows)
            rows = _check_widths(csv_rows, len(columns), f"the header has {len(columns)}", delimiter)
        else:
            columns = source.columns
            rows = _check_widths(csv_rows, len(columns), f"there are {len(columns)} columns", delimiter)
            rows = _without_header(path, rows, columns)
        yield from in_chunks(columns, rows)


def read_lines(path: Path, source: Source) -> Iterator[Chunk]:
    """The lines of a txt file: a text each, or several columns, of which the last takes the rest of the line.

    They are cut at tabs; at spaces only where the recipe says `format: txt`, for files of plain sentences are .txt too.
    """
    columns = source.columns or [LINES_COLUMN]
    with open_bytes(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig") as text:
        delimiter = _choose_cut(path, text, source)
        text.seek(0)
        rows = _cut_lines(text, len(columns), delimiter)
        if source.columns is not None:
            rows = _without_header(path, rows, columns)
        yield from in_chunks(columns, rows)


def _choose_cut(path: Path, text: TextIO, source: Source) -> str | None:
    """By the first line that is not blank; None: any spaces."""
    first_line = next(filter(str.strip, text), "\t")
    if "\t" in first_line or source.columns is None or len(source.columns) == 1:
        return "\t"
    if source.format == "txt":
        return None
    raise UserError(
        f"{path}: no tab in its first line, where `columns` has {len(source.columns)} names. For a text per line give "
        "this source `columns: text` alone; where a space ends the first column, `format: txt` cuts there.",
        code="no-tabs",
    )


def _cut_lines(text: TextIO, width: int, delimiter: str | None) -> Iterator[Row]:
    for number, line in enumerate(text, start=1):
        if not line.strip():  # a blank line is no row
            continue
        cells = line.rstrip("\n").split(delimiter, width - 1)
        if len(cells) == width:
            yield number, cells, ""
        else:
            yield number, None, f"{len(cells)} cells where there are {width} columns"


def _without_header(path: Path, rows: Iterator[Row], columns: list[str]) -> Iterator[Row]:
    """All rows; that the first of them is a header after all is refused, for it would be read as data."""
    first_rows = list(islice(rows, 1))
    for line, cells, _ in first_rows:
        first_cells = [cell.strip().lower() for cell in cells or []]
        if first_cells == [name.lower() for name in columns]:
            raise UserError(
                f"{path}:{line}: this line holds the columns' names, {', '.join(columns)}, and would be read as data: "
                "`columns` is for files without a header. Leave out `columns`, or this line.",
                code="header-and-columns",
            )
    return chain(first_rows, rows)


# --- csv and tsv -------------------------------------------------------------------------------------------------


_CsvRow = tuple[int, int, list[str]]  # its first line, its last line, its cells


def _choose_delimiter(lines: list[str], columns: list[str] | None, quoting: Any) -> str:
    """By the header; where there is none, the one that cuts most lines into as many cells as there are columns."""
    fitting_lines: dict[str, int] = {}
    if columns is not None:
        for delimiter in DELIMITERS:
            rows = csv.reader(lines, delimiter=delimiter, quoting=quoting)
            fitting_lines[delimiter] = sum(len(cells) == len(columns) for cells in rows)
    if any(fitting_lines.values()):
        return max(RAREST_FIRST, key=fitting_lines.__getitem__)
    return max(DELIMITERS, key="".join(lines[:1]).count)


def _rows_with_lines(path: Path, reader: Any) -> Iterator[_CsvRow]:
    line = 1
    try:
        for cells in reader:
            if cells or line == 1:  # a blank line is no row, but it is no header either
                yield line, reader.line_num, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{path}:{line}: not valid csv: {error}. Is a quote mark open in this row? Inside a quoted cell it is "
            f'written twice (""); {QUOTES_AS_LETTERS}.',
            code="bad-csv",
        ) from None


def _read_header(path: Path, rows: Iterator[_CsvRow]) -> tuple[list[str], Iterator[_CsvRow]]:
    """The columns, and the rows beneath them."""
    _, _, header = next(rows, (1, 1, []))
    if not "".join(header).strip():
        raise UserError(f"{path}: empty; expected a header line with column names.", code="empty-file")
    columns = [name.strip() for name in header]
    first_rows = list(islice(rows, 1))
    for _, _, cells in first_rows:
        if len(cells) == len(columns) + 1:
            columns = ["", *columns]  # the header does not name the index column before the others
    return columns, chain(first_rows, rows)


def _check_widths(rows: Iterator[_CsvRow], width: int, expected: str, delimiter: str) -> Iterator[Row]:
    for first_line, last_line, cells in rows:
        if not cells:
            continue
        if len(cells) != width:
            fault = f"{len(cells)} cells where {expected}"
            if len(cells) < width and any(delimiter in cell or "\n" in cell for cell in cells):
                fault += f"; a quoted cell takes in its neighbours: {QUOTES_AS_LETTERS}"
            yield first_line, None, fault
        elif last_line > first_line and delimiter == "\t" and _swallows_rows(cells):
            lines = last_line - first_line + 1
            yield first_line, None, f"a quoted cell takes in {lines} lines: {QUOTES_AS_LETTERS}"
        else:
            yield first_line, cells, ""


def _swallows_rows(cells: list[str]) -> bool:
    """Whether a quote opened in one row and the next one stood further down, in the same column.

    Between them are k line ends and k (columns − 1) tabs, which no text of several lines has by chance.
    """
    for cell in cells:
        line_ends = cell.count("\n")
        if line_ends and len(cells) > 1 and cell.count("\t") == line_ends * (len(cells) - 1):
            return True
    return False
