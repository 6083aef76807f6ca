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
from manyheads.data.chunk import Chunk
from manyheads.data.readers import source_name
from manyheads.data.table import Columns, label_columns
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
WORD_NAMES = ("tokens", "words")
TAG_NAMES = ("tag", "ner_tag", "ner", "slot", "entities", "span", "pos_tag", "pos")  # or several of them
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
    texts = tuple(text or ()) or _recognise_words(names, prefer_words)
    if prefer_words:
        label = label or _first_of_tags(set(names).difference(texts))
    candidates = [name for name in names if name not in (*ID_NAMES, id_column)]
    if not texts:
        label = label or _first_of(LABEL_NAMES, set(names)) or ()
        columns = Columns((), label, None)
        candidates = [name for name in candidates if name not in label_columns(columns)]
        raise _cannot_tell("text", guess_texts(chunk, candidates), source, chunk)
    others = set(names).difference(texts)
    label = label or _first_of(LABEL_NAMES, others) or _first_of_tags(others)
    if not label:
        candidates = [name for name in candidates if name not in texts]
        raise _cannot_tell("label", guess_label(chunk, candidates), source, chunk)
    return Columns(texts, label, id_column)


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
    for name in (*columns.text, *label_columns(columns), columns.id):
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
