"""Texts to predict for, as a dataset: given by a program, or read from a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from pydantic import ValidationError

<<<<<<< HEAD
from manyheads.config.task import Source
from manyheads.data.dataset import Dataset, label_rows, read_rows, recognise_texts
from manyheads.data.readers import read_chunks
=======
from manyheads.config.task import FileFormat, Quoting, Source
from manyheads.data.dataset import Dataset, label_rows, read_rows
from manyheads.data.readers import is_lines, read_chunks
>>>>>>> core
from manyheads.data.table import Columns, Table
from manyheads.errors import UserError, nearest
from manyheads.storage.strings import Strings
from manyheads.tasks.task import Task

Text = str | tuple[str, str]  # a sentence, or a pair


<<<<<<< HEAD
def dataset_of_texts(texts: Sequence[Text], text_count: int, reader: str) -> Dataset:
    """Texts given by a program, checked like those of a file; `text_count` is 2 for pairs. `reader` is who reads them,
    for messages."""
=======
class FileLayout(TypedDict, total=False):
    """How a file is read, as a recipe's source says it."""

    columns: list[str] | None
    format: FileFormat | None
    quoting: Quoting | None


def dataset_of_texts(texts: Sequence[Text], text_count: int, task: str) -> Dataset:
    """Texts given by a program, checked like those of a file; `text_count` is 2 for pairs."""
>>>>>>> core
    if isinstance(texts, str):
        raise UserError("expected a list of texts, found one string; put it in brackets.", code="bad-text")
    columns: list[list[str]] = [[] for _ in range(text_count)]
    for number, text in enumerate(texts, start=1):
        sides = tuple(text) if isinstance(text, tuple | list) else (text,)
        if len(sides) != text_count:
            takes = "two texts" if text_count == 2 else "one text"
            raise UserError(f"input {number}: {reader} takes {takes}, found {len(sides)}.", code="bad-text")
        for column, side in zip(columns, sides, strict=True):
            column.append(_checked(side, number))
    count = len(columns[0])
    sides_as_strings = tuple(map(Strings.of, columns))
    ids = Strings.of(map(str, range(count)))
    lines, files = np.arange(1, count + 1), np.zeros(count, dtype=np.int16)
    return Dataset(Table(sides_as_strings, None, ids, lines, files, ("input",), []), None)


def _checked(text: Any, number: int) -> str:
    if not isinstance(text, str):
        raise UserError(f"input {number}: expected text, found {text!r}.", code="bad-text")
    if not text.strip():
        raise UserError(f"input {number}: empty text.", code="bad-text")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UserError(f"input {number}: not valid UTF-8.", code="bad-text")
    return text.strip()


<<<<<<< HEAD
def dataset_of_file(file: str | Path, text_columns: tuple[str, ...], id_column: str | None) -> Dataset:
    """The texts of a file in its order; labels, if it has any, are not read."""
    columns = Columns(text_columns, None, id_column)
    rows = read_rows([_source(file)], Path.cwd(), "test", columns, str(file))
    return label_rows(rows, None, None, str(file))


def text_columns_of_task(file: str | Path, task: Task, named: Sequence[str] | None) -> tuple[str, ...]:
    """The columns of a file that a task reads: as named, else its own."""
    columns = tuple(named or task.columns.text)
    if len(columns) != len(task.columns.text):
        takes = "two text columns" if task.pair else "one text column"
        raise UserError(f"task '{task.name}' takes {takes}, found {', '.join(columns)}.", code="bad-text-column")
    check_text_columns(file, columns, columns_of_file(file))
    return columns


def text_columns_of_file(file: str | Path, tasks: Iterable[Task], named: Sequence[str] | None) -> tuple[str, ...]:
    """The columns that a file's texts are read from: as named; else those of the first task that finds its own there;
    else those with the usual names."""
    present = columns_of_file(file)
    if named:
        if len(named) > 2:
            raise UserError(f"expected one or two text columns, found {', '.join(named)}.", code="bad-text-column")
        check_text_columns(file, named, present)
        return tuple(named)
    for task in tasks:
        if set(task.columns.text) <= present:
            return task.columns.text
    recognised = recognise_texts(present)
    if not recognised:
        named_columns = ", ".join(sorted(filter(None, present)))
        raise UserError(
            f"{file}: cannot tell which column holds the texts. Columns: {named_columns}. Name it: --text-column NAME "
            "(twice for pairs).",
            code="missing-column",
        )
    return recognised


def check_text_columns(file: str | Path, columns: Sequence[str], present: set[str]) -> None:
    for name in columns:
        if name not in present:
            raise UserError(
                f"{file}: no column '{name}'.{nearest(name, filter(None, present))} --text-column NAME says which "
                "column holds the texts.",
                code="missing-column",
            )


def id_column_of_file(file: str | Path, tasks: Iterable[Task]) -> str | None:
    """The id column of the first task that finds its own there."""
    present = columns_of_file(file)
    for task in tasks:
        if task.columns.id in present:
            return task.columns.id
    return None


def columns_of_file(file: str | Path) -> set[str]:
    return set(next(read_chunks(_source(file), Path.cwd(), "test")).columns)
=======
def dataset_of_file(file: str | Path, task: Task, layout: FileLayout) -> Dataset:
    """The texts of a file in its order; labels, if it has any, are not read."""
    source = _source(file, layout)
    columns = Columns(task.columns.text, None, task.columns.id)
    if is_lines(source):
        columns = Columns(task.columns.text, None, None)
    rows = read_rows([source], Path.cwd(), "test", columns, str(file))
    return label_rows(rows, None, None, str(file))


def tasks_of_file(tasks: Iterable[Task], file: str | Path, layout: FileLayout) -> list[Task]:
    """The tasks that read the same texts of a file: the first whose text columns it has, and others with the same.

    A txt file with a text per line is for all tasks that take single texts, or pairs where its lines have tabs.
    """
    source = _source(file, layout)
    chunk = next(read_chunks(source, Path.cwd(), "test"))
    if is_lines(source):
        has_pairs = any(cells and "\t" in cells[0] for cells in chunk.cells)
        return [task for task in tasks if task.pair == has_pairs]
    readable = [task for task in tasks if set(task.columns.text) <= set(chunk.columns)]
    return [task for task in readable if task.columns.text == readable[0].columns.text]
>>>>>>> core


def _source(file: str | Path, layout: FileLayout) -> Source:
    if not Path(file).is_file():
        raise UserError(f"{file}: no such file.", code="no-such-file")
    try:
        return Source(file=str(file), **layout)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(map(str, fault["loc"]))
        message = fault["msg"].removeprefix("Value error, ")
        raise UserError(f"{key}: {message} (found {fault['input']!r}).", code="bad-option") from None
