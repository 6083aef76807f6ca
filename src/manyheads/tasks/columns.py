"""Which columns a task reads: those that the recipe names, completed by those that are recognised in its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from manyheads.config.task import Source, TaskSettings
from manyheads.data.advice import shown_names
from manyheads.data.readers import find_file, name_lines, read_chunks, source_name
from manyheads.data.recognise import (
    label_look,
    recognise_answers,
    recognise_choices,
    recognise_columns,
    recognise_query,
    recognise_search,
)
from manyheads.data.table import Columns
from manyheads.data.words import WordRule
from manyheads.errors import UserError
from manyheads.tasks.kind import find_kind


def choose_columns(settings: TaskSettings, source: Source, root: Path) -> Columns:
    """The columns that the recipe names, completed by those that are recognised in the file."""
    for columns_of_kind in (_choice_columns, _answer_columns, _search_columns):
        columns = columns_of_kind(settings, source, root)
        if columns is not None:
            return columns
    label = tuple(settings.label) if isinstance(settings.label, list) else settings.label
    may_tag = settings.kind is None or find_kind(settings.kind).word_columns
    if settings.text and label:
        columns = Columns(tuple(settings.text), label, settings.id)
        if not may_tag or (source.file is not None and find_file(source, root) is None):  # told when it is read
            return columns
        chunk = next(read_chunks(name_lines(source, columns.text, label), root, "train"))
    else:
        named = name_lines(source, tuple(settings.text), label) if settings.text else source
        chunk = next(read_chunks(named, root, "train"))
        prefer_words = settings.kind is not None and may_tag
        columns = recognise_columns(source, chunk, settings.text, label, settings.id, prefer_words=prefer_words)
    return replace(columns, words=_word_rule(settings, label_look(chunk, columns))) if may_tag else columns


def _choice_columns(settings: TaskSettings, source: Source, root: Path) -> Columns | None:
    """Those of a multiple choice, where the recipe names candidates or the file has lists of them; else None."""
    is_choice = settings.kind is not None and find_kind(settings.kind).per_candidate
    may_be_choice = settings.kind is None and not isinstance(settings.label, list) and settings.scheme is None
    if not (is_choice or may_be_choice or settings.candidates):
        return None
    if not is_choice and settings.candidates is None and settings.text and settings.label:
        return None
    if source.file is not None and find_file(source, root) is None and not (is_choice or settings.candidates):
        return None  # told when it is read
    if settings.candidates and settings.kind is not None and not is_choice:
        raise UserError(f"`candidates` are for `kind: multiple-choice`, found `kind: {settings.kind}`.", "bad-choice")
    chunk = next(read_chunks(source, root, "train"))
    columns = recognise_choices(chunk, settings.text, settings.candidates, settings.label, settings.id)
    if columns is None and (is_choice or settings.candidates):
        names = ", ".join(shown_names(chunk))
        raise UserError(
            f"{source_name(source, 'train')}: a multiple choice needs a question, candidates and a label. Name them: "
            f"`text: question`, `candidates: choices` (a column of lists) or `candidates: [A, B, C]`, `label: answer`. "
            f"Columns: {names}.",
            code="no-column",
        )
    return columns


def _answer_columns(settings: TaskSettings, source: Source, root: Path) -> Columns | None:
    """Those of a search for answers, where the recipe or the file says so; else None."""
    is_search = settings.kind is not None and find_kind(settings.kind).per_token
    if not is_search and (settings.kind is not None or isinstance(settings.label, list)):
        return None
    if not is_search and source.file is not None and find_file(source, root) is None:
        return None  # told when it is read
    if not is_search and settings.text is not None and len(settings.text) != 2:
        return None
    chunk = next(read_chunks(source, root, "train"))
    columns = recognise_answers(chunk, settings.text, settings.label, settings.id, named=is_search)
    if columns is None and is_search:
        names = ", ".join(shown_names(chunk))
        raise UserError(
            f"{source_name(source, 'train')}: a search for answers needs a question, a text and answers. Name them: "
            f"`text: [question, context]`, `label: answers`. Columns: {names}.",
            code="no-column",
        )
    return columns


def _search_columns(settings: TaskSettings, source: Source, root: Path) -> Columns | None:
    """The columns of a search, where the recipe or the names of the columns say that the task is one; else None."""
    searches = settings.kind is not None and find_kind(settings.kind).searches
    if not searches and (settings.kind or settings.label or settings.text):
        return None
    named = name_lines(source, tuple(settings.text)) if settings.text else source
    chunk = next(read_chunks(named, root, "train"))
    if not searches and recognise_query(chunk.columns) is None:
        return None
    columns = recognise_search(source, chunk, settings.text, settings.negatives)
    label = settings.label if isinstance(settings.label, str) else columns.label
    return replace(columns, label=label, id=settings.id)


def _word_rule(settings: TaskSettings, looks: str) -> WordRule | None:
    """How texts are cut into words; None where labels are not of words."""
    if settings.kind is None and looks == "other":
        return None
    return settings.words or ("letters" if looks == "spans" else "edges")
