"""Which columns of a file are text and label, by their names."""

from __future__ import annotations

import math
from collections.abc import Collection

import yaml

from manyheads.config.task import Source
from manyheads.data.advice import guess_label, guess_texts, layout_advice, shown_names
from manyheads.data.chunk import Chunk
from manyheads.data.readers import source_name
from manyheads.data.table import Columns, label_columns
from manyheads.errors import UserError, nearest

PAIR_NAMES = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("premise", "hypothesis"),
)
TEXT_NAMES = ("text", "sentence", "review", "utterance", "content", "question", "comment", "tweet")
LABEL_NAMES = ("label", "labels", "sentiment", "similarity", "is_duplicate", "score", "class", "category", "intent")
ID_NAMES = ("id", "idx", "index", "guid", "uid")


def recognise_columns(
    source: Source, chunk: Chunk, text: list[str] | None, label: str | tuple[str, ...] | None, id_column: str | None
) -> Columns:
    """The text and label columns by their names, where the recipe does not say which they are."""
    names = list(filter(None, chunk.columns))
    texts = tuple(text or ()) or recognise_texts(names)
    candidates = [name for name in names if name not in (*ID_NAMES, id_column)]
    if not texts:
        label = label or _first_of(LABEL_NAMES, set(names)) or ()
        columns = Columns((), label, None)
        candidates = [name for name in candidates if name not in label_columns(columns)]
        raise _cannot_tell("text", guess_texts(chunk, candidates), source, chunk)
    label = label or _first_of(LABEL_NAMES, set(names).difference(texts))
    if not label:
        candidates = [name for name in candidates if name not in texts]
        raise _cannot_tell("label", guess_label(chunk, candidates), source, chunk)
    return Columns(texts, label, id_column)


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
