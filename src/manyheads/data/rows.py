"""The usable rows of a split's files, column by column; the others are listed with what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyheads.config.label_text import normalise
from manyheads.config.task import Source
from manyheads.data.answers import write_answers
from manyheads.data.choices import join_chunk
from manyheads.data.chunk import Chunk
from manyheads.data.labels import FAULT, YES, BadLabel, as_list
from manyheads.data.readers import read_chunks
from manyheads.data.recognise import check_columns
from manyheads.data.table import BadRow, Columns, TableChunk, has_indents, label_columns
from manyheads.data.text_lists import join_texts
from manyheads.data.words import GIVEN, WordRule, cut_words, is_span, join_words, tags_of_spans

PLAIN = {str, int, float, bool}  # among cells of one type, equal cells are one label; 1 and True are not


def usable_rows(
    sources: list[Source], root: Path, split: str, columns: Columns, location: str, bad: list[BadRow]
) -> Iterator[TableChunk]:
    """The usable rows, chunk by chunk; the others are added to `bad`."""
    count = 0
    for file, source in enumerate(sources):
        for chunk in read_chunks(source, root, split):
            if count and not chunk.cells:
                continue
            check_columns(source, split, chunk, columns, location)
            if columns.choices is not None:
                label = columns.label if isinstance(columns.label, str) else None
                chunk = join_chunk(chunk, columns.text, label, columns.choices)
            if columns.answers is not None and isinstance(columns.label, str):
                chunk = write_answers(chunk, columns.text[1], columns.label, columns.answers)
            number = count + len(bad)  # rows that are left out still count: an id leads back to its row in the file
            piece = plain_rows(file, chunk, columns, number) or checked_rows(file, chunk, columns, number, bad)
            count += len(piece.lines)
            yield piece


def _id_column(names: list[str], columns: Columns) -> str | None:
    if columns.id is None and "id" in names:
        return "id"
    return columns.id


# --- chunks with nothing odd in them ---------------------------------------------------------------------------


def plain_rows(file: int, chunk: Chunk, columns: Columns, number: int) -> TableChunk | None:
    """The rows of a chunk with nothing odd in it, column by column, which is several times as quick; else None."""
    rows = [row for row in chunk.cells if row is not None]
    if has_indents(columns) or columns.negatives:
        return None
    if not rows or len(rows) < len(chunk.cells):
        return None
    texts: list[list[str]] = []
    for name in columns.text:
        cells = _column(chunk, rows, name)
        if set(map(type, cells)) != {str}:
            return None
        texts.append([cell.strip() for cell in cells])
        if "" in texts[-1]:
            return None
    labels = _plain_labels(chunk, rows, columns)
    if labels is None:
        return None
    id_name = _id_column(chunk.columns, columns)
    if id_name is None:
        ids = list(map(str, range(number, number + len(rows))))
    else:
        ids = list(map(_text, _column(chunk, rows, id_name)))
    return TableChunk(file, tuple(texts), labels, ids, chunk.lines)


def _plain_labels(chunk: Chunk, rows: list[list[Any]], columns: Columns) -> list[str] | None:
    """The labels of all rows, where each column has cells of one plain type; else None."""
    cells_by_column = [_column(chunk, rows, name) for name in label_columns(columns)]
    for cells in cells_by_column:
        types = set(map(type, cells))
        if len(types) > 1 or not types <= PLAIN:
            return None
    cells_by_row = list(zip(*cells_by_column, strict=True))
    words = {cells: _label(list(cells), columns) for cells in set(cells_by_row)}  # each distinct one is read once
    return [words[cells] for cells in cells_by_row]


def _column(chunk: Chunk, rows: list[list[Any]], name: str) -> list[Any]:
    index = chunk.columns.index(name)
    return [row[index] for row in rows]


# --- any chunk, row by row -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Indices:
    """Where the wanted columns stand among a chunk's cells."""

    texts: list[int]
    labels: list[int]
    negatives: list[int]
    id: int | None

    @classmethod
    def of(cls, names: list[str], columns: Columns) -> _Indices:
        texts = list(map(names.index, columns.text))
        labels = list(map(names.index, label_columns(columns)))
        id_name = _id_column(names, columns)
        negatives = [names.index(name) for name in columns.negatives if name in names]  # dev may have none
        return cls(texts, labels, negatives, None if id_name is None else names.index(id_name))


def checked_rows(file: int, chunk: Chunk, columns: Columns, number: int, bad: list[BadRow]) -> TableChunk:
    """The usable rows of any chunk; the others are added to `bad`."""
    indices = _Indices.of(chunk.columns, columns)
    faults = iter(chunk.faults)
    usable = TableChunk(file, tuple([] for _ in columns.text))
    for row_number, (row, line) in enumerate(zip(chunk.cells, chunk.lines, strict=True), number):
        if row is None:
            bad.append(BadRow(file, line, next(faults)))
            continue
        reason = _why_unusable(row, chunk.columns, indices)
        if reason is not None:
            bad.append(BadRow(file, line, reason))
            continue
        for side, index in zip(usable.texts, indices.texts, strict=True):
            side.append(_text(row[index]))
        if columns.words is not None:
            indent, label = _read_words(row, indices, columns.words)
            usable.indents.append(indent)
            if indices.labels:
                usable.labels.append(label)
        elif columns.answers is not None:
            context = row[indices.texts[1]]
            usable.indents.append(len(context) - len(context.lstrip()) if isinstance(context, str) else 0)
        if columns.words is None and indices.labels:
            usable.labels.append(_label([row[index] for index in indices.labels], columns))
        if columns.negatives:
            usable.negatives.append(_negatives(row, indices))
        usable.ids.append(str(row_number) if indices.id is None else _text(row[indices.id]))
        usable.lines.append(line)
    return usable


def _why_unusable(row: list[Any], names: list[str], indices: _Indices) -> str | None:
    """What is wrong with the cells of a row, labels' types before texts'; None where nothing is."""
    for index in indices.labels:
        if isinstance(row[index], bytes | dict):
            return f"{type(row[index]).__name__} instead of text in column '{names[index]}'"
    for index in (*indices.texts, *indices.negatives):
        if isinstance(row[index], bytes | dict):
            return f"{type(row[index]).__name__} instead of text in column '{names[index]}'"
        if isinstance(row[index], list) and index not in indices.negatives:
            try:
                join_words(row[index])
            except ValueError as fault:
                return f"a list that is not of words in column '{names[index]}': {fault}"
    for index in indices.negatives:
        if isinstance(row[index], list) and not all(isinstance(text, str) for text in row[index]):
            return f"a list that is not of texts in column '{names[index]}'"
    for index in indices.texts:
        if not _text(row[index]):
            return f"empty text in column '{names[index]}'"
    return None


def _negatives(row: list[Any], indices: _Indices) -> str:
    """The wrong answers of a row as one string; empty cells are none."""
    texts: list[str] = []
    for index in indices.negatives:
        cells = row[index] if isinstance(row[index], list) else [row[index]]
        texts += map(_text, cells)
    return join_texts(text for text in texts if text)


def _label(cells: list[Any], columns: Columns) -> str:
    """The label as one word; where it is a list of classes, or a column per class, those that the row has."""
    if isinstance(columns.label, tuple):
        return _label_of_class_columns(cells, columns.label)
    if isinstance(cells[0], list | tuple):
        return as_list(map(normalise, cells[0]))
    return normalise(cells[0])


def _label_of_class_columns(cells: list[Any], class_names: tuple[str, ...]) -> str:
    words = [normalise(cell).lower() for cell in cells]
    if not any(words):
        return ""
    classes: list[str] = []
    for name, word in zip(class_names, words, strict=True):
        if word not in YES:
            return f"{FAULT}expected 0 or 1 in column '{name}', found '{word}'"
        if YES[word]:
            classes.append(name)
    return as_list(classes)


def _read_words(row: list[Any], indices: _Indices, rule: WordRule) -> tuple[int, str]:
    """A row's indent, and its label as one word: a list of tags, one for each word; empty where it has none."""
    text = row[indices.texts[0]]
    is_text = isinstance(text, str)
    indent = len(text) - len(text.lstrip()) if is_text else 0
    label = row[indices.labels[0]] if indices.labels else None
    if isinstance(label, str):
        label = label.split()
    try:
        if not isinstance(label, list | tuple):
            return (indent if is_text else GIVEN), _no_tags(label)
        if is_text and all(map(is_span, label)):
            return indent, as_list(tags_of_spans(text, label, rule))
        return GIVEN - indent, as_list(_tags_of_list(_text(text), label))
    except BadLabel as reason:
        return indent, f"{FAULT}{reason}"


def _no_tags(label: Any) -> str:
    """Nothing, where a cell is empty."""
    if label is not None and normalise(label):
        raise BadLabel("expected a list of tags or spans")
    return ""


def _tags_of_list(text: str, label: Sequence[Any]) -> list[str]:
    """One for each word between spaces."""
    tags = list(map(normalise, label))
    words = len(cut_words(text, "spaces"))
    if len(tags) != words:
        raise BadLabel(f"{len(tags)} tags for {words} words")
    if "" in tags:
        raise BadLabel(f"word {tags.index('') + 1} has no tag")
    return tags


def _text(cell: Any) -> str:
    if isinstance(cell, list):
        return join_words(cell)
    if cell is None or cell != cell:  # NaN is how some tools write an empty cell
        return ""
    return str(cell).strip()
