"""Texts to predict for, as a dataset: given by a program, or read from a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from pydantic import ValidationError

from manyheads.config.task import FileFormat, Quoting, Source
from manyheads.data.advice import layout_advice, shown_names
from manyheads.data.answers import AnswerColumns
from manyheads.data.choices import ChoiceColumns, join_candidates
from manyheads.data.chunk import Chunk
from manyheads.data.dataset import Dataset, label_rows, read_rows
from manyheads.data.readers import is_lines, read_chunks
from manyheads.data.recognise import recognise_texts
from manyheads.data.table import Columns, Table
from manyheads.data.words import GIVEN, WordRule, join_words
from manyheads.errors import UserError, nearest
from manyheads.storage.strings import Strings
from manyheads.tasks.task import Task

Text = str | tuple[str, str]  # a sentence, or a pair
# names for what stands in a line of a txt file that says nothing of its columns
LINE_OF_TEXT = ("text",)
LINE_OF_PAIR = ("text1", "text2")


class FileLayout(TypedDict, total=False):
    """How a file is read, as a recipe's source says it."""

    columns: list[str] | None
    format: FileFormat | None
    quoting: Quoting | None


class LabelledLayout(FileLayout, total=False):
    """The same of labelled files, and the columns of one task where they are not called as in its recipe."""

    text_columns: Sequence[str] | None
    label_column: str | None


def dataset_of_texts(texts: Sequence[Text | list[str]], text_count: int, reader: str, words: bool = False) -> Dataset:
    """Texts given by a program, checked like those of a file; `text_count` is 2 for pairs. `reader` is who reads them,
    for messages. `words`: a list is one text, word by word."""
    if isinstance(texts, str):
        raise UserError("expected a list of texts, found one string; put it in brackets.", code="bad-text")
    columns: list[list[str]] = [[] for _ in range(text_count)]
    indents: list[int] = []
    for number, text in enumerate(texts, start=1):
        if words and isinstance(text, list):
            columns[0].append(_checked(_joined(text, number), number))
            indents.append(GIVEN)
            continue
        sides = tuple(text) if isinstance(text, tuple | list) else (text,)
        if len(sides) != text_count:
            takes = "two texts" if text_count == 2 else "one text"
            raise UserError(f"input {number}: {reader} takes {takes}, found {len(sides)}.", code="bad-text")
        for column, side in zip(columns, sides, strict=True):
            column.append(_checked(side, number))
        indents.append(len(sides[-1]) - len(sides[-1].lstrip()))
    count = len(columns[0])
    sides_as_strings = tuple(map(Strings.of, columns))
    ids = Strings.of(map(str, range(count)))
    lines, files = np.arange(1, count + 1), np.zeros(count, dtype=np.int16)
    return Dataset(Table(sides_as_strings, None, ids, lines, files, ("input",), [], np.array(indents)), None)


def takes_texts(task: Task, text_count: int) -> bool:
    """Whether a task reads single texts, or pairs; one that chooses among candidates reads neither."""
    return len(task.columns.text) == text_count and not task.kind.per_candidate


def choice_texts(rows: Sequence[Any], task: Task) -> list[Text]:
    """Questions with their candidates, as (question, [candidates]) or (context, question, [candidates]), in the form
    that files have them in."""
    assert task.columns.choices is not None
    has_context = task.columns.choices.question is not None
    expected = "(context, question, [candidates])" if has_context else "(question, [candidates])"
    if isinstance(rows, str):
        raise UserError(f"expected a list of {expected}, found one string.", code="bad-text")
    texts: list[Text] = []
    for number, row in enumerate(rows, start=1):
        parts = list(row) if isinstance(row, tuple | list) else []
        if len(parts) != 2 + has_context or not isinstance(parts[-1], tuple | list):
            reason = f"task '{task.name}' takes {expected}, found {row!r}"
            raise UserError(f"input {number}: {reason:.300}.", code="bad-text")
        question = _checked(parts[1], number) if has_context else ""
        try:
            joined = join_candidates(question, [_checked(candidate, number) for candidate in parts[-1]])
        except ValueError as fault:
            raise UserError(f"input {number}: {fault}.", code="bad-text") from None
        texts.append((parts[0], joined))
    return texts


def _joined(words: list[str], number: int) -> str:
    try:
        return join_words(words)
    except ValueError as fault:
        raise UserError(f"input {number}: {fault}.", code="bad-text") from None


def _checked(text: Any, number: int) -> str:
    if not isinstance(text, str):
        raise UserError(f"input {number}: expected text, found {text!r}.", code="bad-text")
    if not text.strip():
        raise UserError(f"input {number}: empty text.", code="bad-text")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UserError(f"input {number}: not valid UTF-8.", code="bad-text")
    return text.strip()


def source_of_file(file: str | Path, layout: FileLayout) -> Source:
    if not Path(file).is_file():
        raise UserError(f"{file}: no such file.", code="no-such-file")
    try:
        return Source(file=str(file), **layout)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(map(str, fault["loc"]))
        message = fault["msg"].removeprefix("Value error, ")
        raise UserError(f"{key}: {message} (found {fault['input']!r}).", code="bad-option") from None


def first_chunk(source: Source) -> Chunk:
    """By which the columns of a file are known."""
    return next(read_chunks(source, Path.cwd(), "test"))


def dataset_of_file(
    source: Source,
    text_columns: tuple[str, ...],
    id_column: str | None,
    words: WordRule | None = None,
    choices: ChoiceColumns | None = None,
    answers: AnswerColumns | None = None,
) -> Dataset:
    """The texts of a file in its order; labels, if it has any, are not read."""
    columns = Columns(text_columns, None, None if is_lines(source) else id_column, words, answers, choices)
    rows = read_rows([source], Path.cwd(), "test", columns, str(source.file))
    return label_rows(rows, None, None, str(source.file))


def text_columns_of_task(source: Source, task: Task, named: Sequence[str] | None) -> tuple[str, ...]:
    """The columns of a file that a task reads: as named, else its own. A line of a txt file goes by any name."""
    columns = tuple(named or task.columns.text)
    if named and task.columns.choices is not None:
        reason = (
            "reads its question and candidates from columns of the names they have in train; leave out --text-column"
        )
        raise UserError(f"task '{task.name}' {reason}.", code="bad-text-column")
    if len(columns) != len(task.columns.text):
        takes = "two text columns" if task.pair else "one text column"
        raise UserError(f"task '{task.name}' takes {takes}, found {', '.join(columns)}.", code="bad-text-column")
    if named or not is_lines(source):
        _check_text_columns(source, columns, first_chunk(source))
    return columns


def text_columns_of_file(source: Source, tasks: Iterable[Task], named: Sequence[str] | None) -> tuple[str, ...]:
    """The columns that a file's texts are read from: as named; else those of the first task that finds its own there;
    else those with the usual names.

    A txt file with a text per line has single texts, or pairs where its lines have tabs.
    """
    chunk = first_chunk(source)
    if named:
        if len(named) > 2:
            raise UserError(f"expected one or two text columns, found {', '.join(named)}.", code="bad-text-column")
        _check_text_columns(source, named, chunk)
        return tuple(named)
    if is_lines(source):
        has_pairs = any(cells and "\t" in cells[0] for cells in chunk.cells)
        return LINE_OF_PAIR if has_pairs else LINE_OF_TEXT
    for task in tasks:
        if set(task.columns.text) <= set(chunk.columns):
            return task.columns.text
    recognised = recognise_texts(chunk.columns)
    if not recognised:
        advice = layout_advice(source, chunk) or " Name it: --text-column NAME (twice for pairs)."
        raise UserError(
            f"{source.file}: cannot tell which column holds the texts. Columns: {', '.join(shown_names(chunk))}."
            f"{advice}",
            code="missing-column",
        )
    return recognised


def _check_text_columns(source: Source, columns: Sequence[str], chunk: Chunk) -> None:
    for name in columns:
        if name not in chunk.columns:
            advice = layout_advice(source, chunk) or " --text-column NAME says which column holds the texts."
            raise UserError(
                f"{source.file}: no column '{name}'.{nearest(name, shown_names(chunk))}{advice}", code="missing-column"
            )


def id_column_of_file(source: Source, tasks: Iterable[Task]) -> str | None:
    """The id column of the first task that finds its own there."""
    present = first_chunk(source).columns
    for task in tasks:
        if task.columns.id in present:
            return task.columns.id
    return None
