"""The tokens in which an answer is looked for: windows over a long text, each after the question."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manyheads.data.answers import read_answers
from manyheads.model.multitask import ManyHeads
from manyheads.storage.ragged import Column
from manyheads.tokens.column import TokenColumn
from manyheads.tokens.packing import Sequence
from manyheads.tokens.windows import cut_windows

NO_ANSWER = 0  # the first place of a row, read at the first token of its first window; then come the text's tokens


def answer_windows(
    model: ManyHeads, task: str, texts: tuple[TokenColumn, ...], row: int, row_group: str | None
) -> list[Sequence]:
    """Question and text, or question and windows of the text. A question takes at most half of an input."""
    special_tokens = model.tokenizer.special_tokens
    question, context = texts[0][row], texts[1][row]
    empty = np.empty(0, dtype=question.dtype)
    around = len(model.frame(task, (empty, empty), row)[0].ids)
    question = question[: max(1, (model.max_length - around) // 2)]
    windows = cut_windows(len(context), model.max_length - around - len(question))
    sequences: list[Sequence] = []
    for number, window in enumerate(windows):
        tokens = context[window.start : window.end]
        (sequence,) = model.frame(task, (question, tokens), row, row_group, first_side=number)
        first = len(sequence.ids) - len(special_tokens.end) - len(tokens)  # the text is what stands last
        places = first + window.own(np.arange(len(context)))
        if number == 0:
            places = np.concatenate([[0], places])
        sequences.append(replace(sequence, words=places))
    return sequences


def answer_places(labels: Column, context: TokenColumn) -> np.ndarray:
    """[rows, 2] the places of the first and the last token of each row's first answer."""
    places = np.full((len(labels), 2), NO_ANSWER, dtype=np.int64)
    for row, codes in enumerate(labels):
        answers = read_answers(codes) if len(codes) else []
        offsets = context.offsets_of(row)
        if not answers or offsets is None or not len(offsets):
            continue
        start, text = answers[0]
        first = int(np.searchsorted(offsets[:, 1], start, side="right"))
        last = int(np.searchsorted(offsets[:, 0], start + len(text), side="left")) - 1
        if first <= last:
            places[row] = 1 + first, 1 + last
    return places
