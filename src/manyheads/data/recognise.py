"""Which columns of a file are text and label, by their names."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection
from typing import Any, Literal

import yaml

from manyheads.config.task import Source
from manyheads.data.advice import guess_label, guess_texts, layout_advice, shown_names
from manyheads.data.answers import AnswerColumns, looks_like_answers
from manyheads.data.choices import ChoiceColumns
from manyheads.data.chunk import Chunk
from manyheads.data.readers import source_name
from manyheads.data.table import Columns, label_columns, text_columns
from manyheads.data.tags import split_tag
from manyheads.data.words import is_span
from manyheads.errors import UserError, nearest

PAIR_NAMES = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("premise", "hypothesis"),
)
QUERY_NAMES = (("query", "positive"), ("anchor", "positive"))
NEGATIVE_NAME = re.compile(r"negatives?(_?\d+)?")
Look = Literal["words", "spans", "other"]  # of labels: a tag for every word, or spans of characters
LOOKED_AT = 100  # rows by which a label column is known for one of tags
TEXT_NAMES = ("text", "sentence", "review", "utterance", "content", "question", "comment", "tweet")
LABEL_NAMES = ("label", "labels", "sentiment", "similarity", "is_duplicate", "score", "class", "category", "intent")
SURELY_LABELS = ("label", "labels")  # whatever other columns there are
WORD_NAMES = ("tokens", "words")
TAG_NAMES = ("tag", "ner_tag", "ner", "slot", "entities", "span", "pos_tag", "pos")  # or several of them
CANDIDATE_NAMES = ("choices", "candidates", "options")
RIGHT_NAMES = ("label", "answer", "answerKey", "answer_index", "correct")  # which candidate is right
CONTEXT_NAMES = ("context", "passage", "article")
ID_NAMES = ("id", "idx", "index", "guid", "uid")


def recognise_columns(
    source: Source,
    chunk: Chunk,
    text: list[str] | None,
    label: str | tuple[str, ...] | None,
    id_column: str | None,
    prefer_words: bool = False,
) -> Columns:
    """The text and label columns by their names, where the recipe does not say which they are. `prefer_words`: lists of
    words before texts."""
    names = list(filter(None, chunk.columns))
    texts = tuple(text or ()) or _recognise_words(names, prefer_words or _has_tag_per_word(chunk, label))
    if prefer_words:
        label = label or _first_of_tags(set(names).difference(texts))
    candidates = [name for name in names if name not in (*ID_NAMES, id_column)]
    if not texts:
        label = label or _first_of(LABEL_NAMES, set(names)) or ()
        columns = Columns((), label, None)
        candidates = [name for name in candidates if name not in label_columns(columns)]
        raise _cannot_tell("text", guess_texts(chunk, candidates), source, chunk)
    others = set(names).difference(texts)
    if not label:
        label, tags = _first_of(LABEL_NAMES, others), _first_of_tags(others)
        if label is not None and tags is not None and label not in SURELY_LABELS:
            raise _two_labels(label, tags, source, chunk)
        label = label or tags
    if not label:
        candidates = [name for name in candidates if name not in texts]
        raise _cannot_tell("label", guess_label(chunk, candidates), source, chunk)
    return Columns(texts, label, id_column)


def recognise_choices(
    chunk: Chunk,
    text: list[str] | None,
    candidates: list[str] | None,
    label: str | list[str] | None,
    id_column: str | None,
) -> Columns | None:
    """The columns of a multiple choice; None where candidates are neither named nor recognised as lists, or the
    question or the label is not recognised."""
    names = set(filter(None, chunk.columns))
    if candidates is None:
        recognised = next((name for name in CANDIDATE_NAMES if name in names and _has_lists(chunk, name)), None)
        candidates = None if recognised is None else [recognised]
    texts = tuple(text or ())
    if not texts:
        question = _first_of(("question", *TEXT_NAMES), names)
        context = _first_of(CONTEXT_NAMES, names)
        texts = tuple(name for name in (context, question) if name) if question else ()
    label = label or _first_of(RIGHT_NAMES, names.difference(texts))
    if not candidates or not texts or not isinstance(label, str):
        return None
    choices = ChoiceColumns(tuple(candidates), texts[1] if len(texts) == 2 else None)
    return Columns((texts[0], candidates[0]), label, id_column, choices=choices)


def recognise_answers(
    chunk: Chunk, text: list[str] | None, label: str | list[str] | None, id_column: str | None, named: bool
) -> Columns | None:
    """The columns of a question, a text and answers in it; None where they are not recognised. `named`: the recipe says
    that there are some."""
    names = set(filter(None, chunk.columns))
    texts = tuple(text or ())
    if not texts and "question" in names:
        context = _first_of(CONTEXT_NAMES, names)
        texts = ("question", context) if context else ()
    if len(texts) != 2:
        return None
    label = label or _first_of(("answers", "answer"), names.difference(texts))
    if not isinstance(label, str) or label not in names:
        return None
    start = "answer_start" if "answer_start" in names and label != "answer_start" else None
    if start is None and not named:
        index = chunk.columns.index(label)
        cells = [row[index] for row in chunk.cells[:LOOKED_AT] if row is not None and row[index]]
        if not cells or not all(map(looks_like_answers, cells)):
            return None
    return Columns(texts, label, id_column, answers=AnswerColumns(start))


def _has_lists(chunk: Chunk, name: str) -> bool:
    """Whether the first rows have lists of texts there."""
    index = chunk.columns.index(name)
    cells = [row[index] for row in chunk.cells[:LOOKED_AT] if row is not None]
    if not cells:
        return False
    return all(isinstance(cell, list) and all(isinstance(part, str) for part in cell) for cell in cells)


def label_look(chunk: Chunk, columns: Columns) -> Look:
    """What most of the first labels of a file are."""
    if not isinstance(columns.label, str) or not {columns.label, columns.text[0]} <= set(chunk.columns):
        return "other"
    text_index, label_index = chunk.columns.index(columns.text[0]), chunk.columns.index(columns.label)
    looks: Counter[Look] = Counter()
    for row in chunk.cells[:LOOKED_AT]:
        if row is not None and row[label_index] not in (None, "", []):
            looks[_look(row[text_index], row[label_index])] += 1
    return looks.most_common(1)[0][0] if looks else "other"


def _look(text: Any, label: Any) -> Look:
    if not isinstance(label, list) or not label:
        return "other"
    if isinstance(text, str) and all(map(is_span, label)):
        return "spans"
    words = text if isinstance(text, list) else str(text).split()
    if not all(isinstance(tag, str | int) for tag in label):
        return "other"
    alike = isinstance(text, list) or all(split_tag(str(tag)) is not None for tag in label)
    return "words" if alike and len(words) == len(label) else "other"


def _recognise_words(names: Collection[str], prefer_words: bool) -> tuple[str, ...]:
    """The text columns by their usual names, and those of lists of words: the latter first if they are preferred."""
    words = _first_of(WORD_NAMES, set(names))
    of_words = (words,) if words else ()
    if prefer_words:
        return of_words or recognise_texts(names)
    return recognise_texts(names) or of_words


def _has_tag_per_word(chunk: Chunk, label: str | tuple[str, ...] | None) -> bool:
    """Whether the first rows have, in the label column, a list as long as that of the words."""
    words = _first_of(WORD_NAMES, set(filter(None, chunk.columns)))
    if words is None or not isinstance(label, str) or label not in chunk.columns:
        return False
    words_index, label_index = chunk.columns.index(words), chunk.columns.index(label)
    rows = [row for row in chunk.cells[:LOOKED_AT] if row is not None]
    for row in rows:
        tags, row_words = row[label_index], row[words_index]
        if not isinstance(tags, list) or not isinstance(row_words, list) or len(tags) != len(row_words):
            return False
    return bool(rows)


def _two_labels(label: str, tags: str, source: Source, chunk: Chunk) -> UserError:
    columns = ", ".join(shown_names(chunk))
    return UserError(
        f"{source_name(source, 'train')}: cannot tell which column is the label: '{label}' may be a class of the text, "
        f"'{tags}' tags of its words. Columns: {columns}. Name it in the recipe: `label: {label}` or `label: {tags}`.",
        code="no-column",
    )


def _cannot_tell(role: str, likely_names: list[str], source: Source, chunk: Chunk) -> UserError:
    """`role`: text or label."""
    advice = layout_advice(source, chunk)
    if not advice and likely_names:
        value = yaml.safe_dump(likely_names, default_flow_style=True, allow_unicode=True, width=math.inf).strip()
        if len(likely_names) == 1:
            value = value[1:-1]  # without the brackets
        advice = f" Name it in the recipe, for example `{role}: {value}`."
    columns = ", ".join(shown_names(chunk))
    return UserError(
        f"{source_name(source, 'train')}: cannot tell which column is the {role}. Columns: {columns}.{advice}",
        code="no-column",
    )


def recognise_search(source: Source, chunk: Chunk, text: list[str] | None, negatives: list[str] | None) -> Columns:
    """The columns of a search: query, right answer and, where there are such, wrong ones. Every row is a match, so
    the right answer is the label, too."""
    names = list(filter(None, chunk.columns))
    texts = tuple(text or recognise_query(names) or recognise_texts(names))
    if len(texts) != 2:
        likely_names = guess_texts(chunk, [name for name in names if name not in ID_NAMES])
        raise _cannot_tell("text", likely_names, source, chunk)
    for name in negatives or []:
        if name not in names:
            reason = f"no column '{name}'.{nearest(name, shown_names(chunk))}"
            raise UserError(f"{source_name(source, 'train')}: {reason}", code="unknown-column")
    if negatives is None:
        negatives = [name for name in names if NEGATIVE_NAME.fullmatch(name) and name not in texts]
    return Columns(texts, texts[1], None, negatives=tuple(negatives))


def recognise_query(names: Collection[str]) -> tuple[str, str] | None:
    """The columns of a query and its right answer by their usual names."""
    return next((pair for pair in QUERY_NAMES if set(pair) <= set(names)), None)


def check_columns(source: Source, split: str, chunk: Chunk, columns: Columns, location: str) -> None:
    """A column that the file does not have is an error that names those it has."""
    start = columns.answers.start if columns.answers is not None and columns.label is not None else None
    for name in (*text_columns(columns), *label_columns(columns), start, columns.id):
        if name is not None and name not in chunk.columns:
            known_columns = nearest(name, shown_names(chunk))
            advice = layout_advice(source, chunk)
            raise UserError(
                f"{location}: {source_name(source, split)}: no column '{name}'.{known_columns}{advice}",
                code="unknown-column",
            )


def recognise_texts(names: Collection[str]) -> tuple[str, ...]:
    """The text columns by their usual names; empty where there are none."""
    for pair in PAIR_NAMES:
        if set(pair) <= set(names):
            return pair
    single = _first_of(TEXT_NAMES, set(names))
    if single is None:
        return ()
    return (single,)


def _first_of(preferred: tuple[str, ...], names: set[str]) -> str | None:
    for name in preferred:
        if name in names:
            return name
    return None


def _first_of_tags(names: set[str]) -> str | None:
    return _first_of(tuple(spelt for name in TAG_NAMES for spelt in (f"{name}s", name)), names)
