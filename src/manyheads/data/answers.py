"""Answers that are parts of a text: read from files, and compared as SQuAD's script compares them.

A label is kept as one word of JSON, [[start, text], …], empty where the text has no answer; starts count in the text
without the spaces around it.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyheads.data.chunk import Chunk, with_rows

ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
PUNCTUATION = str.maketrans("", "", string.punctuation)

Answers = list[tuple[int, str]]  # where each begins, and its text; none where the text has no answer


@dataclass(frozen=True)
class AnswerColumns:
    """Where an answer begins, if its file has a column for that beside its text; else one column holds both."""

    start: str | None = None


# --- files ----------------------------------------------------------------------------------------------------------


def write_answers(chunk: Chunk, context: str, label: str, columns: AnswerColumns) -> Chunk:
    """The same rows with their answers as JSON; those that do not stand in their text are malformed."""
    at = {name: number for number, name in enumerate(chunk.columns)}

    def write_row(cells: list[Any]) -> list[Any]:
        start = None if columns.start is None else cells[at[columns.start]]
        written = list(cells)
        written[at[label]] = _write(cells[at[label]], start, columns, cells[at[context]])
        return written

    return with_rows(chunk, write_row)


def _write(cell: Any, start: Any, columns: AnswerColumns, context: Any) -> str:
    """As JSON; empty where nothing is known."""
    if cell is None and columns.start is None:
        return ""
    text = context if isinstance(context, str) else ""
    answers = _read_column(cell, start) if columns.start is not None else _read_cell(cell)
    for begin, answer in answers:
        if not answer.strip():
            raise ValueError("an answer is empty; a list without answers says that there is none")
        if begin < 0 or text[begin : begin + len(answer)] != answer:
            raise ValueError(f"answer '{answer[:40]}' does not stand at character {begin} of the text")
    indent = len(text) - len(text.lstrip())
    return json.dumps([[begin - indent, answer] for begin, answer in answers], ensure_ascii=True)


def _read_column(text: Any, start: Any) -> Answers:
    """An answer in a column, and where it begins in another one."""
    if text is None or text != text or not str(text).strip():
        return []
    return [(_whole(start), str(text))]


def _read_cell(cell: Any) -> Answers:
    """{text: […], answer_start: […]} as data sets have it, or a list of {text, answer_start} as SQuAD's own files."""
    if isinstance(cell, dict) and isinstance(cell.get("text"), list) and isinstance(cell.get("answer_start"), list):
        if len(cell["text"]) != len(cell["answer_start"]):
            raise ValueError(f"{len(cell['text'])} answers with {len(cell['answer_start'])} starts")
        return [(_whole(start), str(text)) for text, start in zip(cell["text"], cell["answer_start"], strict=True)]
    if isinstance(cell, dict) and "text" in cell:
        cell = [cell]
    if isinstance(cell, list) and all(isinstance(answer, dict) and "text" in answer for answer in cell):
        return [(_whole(answer.get("answer_start")), str(answer["text"])) for answer in cell]
    raise ValueError(f"answers are {{text: […], answer_start: […]}}, found {str(cell)[:60]}")


def _whole(start: Any) -> int:
    try:
        return int(start)
    except (TypeError, ValueError):
        raise ValueError(f"expected the number of an answer's first character, found {start!r}") from None


def looks_like_answers(cell: Any) -> bool:
    """Whether a cell has answers with their starts."""
    if isinstance(cell, list):
        return bool(cell) and all(
            isinstance(answer, dict) and {"text", "answer_start"} <= set(answer) for answer in cell
        )
    return isinstance(cell, dict) and {"text", "answer_start"} <= set(cell)


# --- texts as numbers, so that labels and predictions are columns of numbers as any others --------------------------


def to_codes(text: str) -> list[int]:
    return list(map(ord, text))


def from_codes(codes: np.ndarray) -> str:
    return "".join(map(chr, codes.astype(np.int64).tolist()))


def read_answers(codes: np.ndarray) -> Answers:
    """Of one row's label."""
    return [(start, text) for start, text in json.loads(from_codes(codes))]


# --- SQuAD's comparison ---------------------------------------------------------------------------------------------


def normalise_answer(text: str) -> str:
    """Lower case, without punctuation and articles, one space between words."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def exact_match(predicted: str, answers: Sequence[str]) -> float:
    """1 where the prediction is any of the answers, once normalised; without answers, where nothing is predicted."""
    return max(float(normalise_answer(predicted) == normalise_answer(answer)) for answer in _right(answers))


def f1(predicted: str, answers: Sequence[str]) -> float:
    """2·common / (predicted + right) of words, the best over the answers; where either has none, whether both have."""
    return max(_f1(normalise_answer(predicted).split(), normalise_answer(answer).split()) for answer in _right(answers))


def _right(answers: Sequence[str]) -> list[str]:
    """Those of which something is left when they are normalised; without any, nothing is right."""
    return [answer for answer in answers if normalise_answer(answer)] or [""]


def _f1(predicted: list[str], right: list[str]) -> float:
    if not predicted or not right:
        return float(predicted == right)
    common = sum((Counter(predicted) & Counter(right)).values())
    return 2 * common / (len(predicted) + len(right))
