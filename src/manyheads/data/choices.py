"""Rows of multiple choice: a question, candidates, and which of them is right.

The candidates of a row become one text, each after `MARK`, so that a row of any number of them is a pair of texts for
everything that counts, compares or holds out rows. What a label says is only known when all of train has been seen,
so each reading that fits its row is kept: 'as 0, as 1, as a letter, as a candidate's text / candidates'.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from manyheads.config.label_text import normalise
from manyheads.data.chunk import Chunk, with_rows
from manyheads.data.labels import BadLabel

MARK = "␟"  # a sign that texts do not have, and that no tokenizer ever sees
FEWEST = 2
WRITTEN = re.compile(r"(?:\d*,){3}\d*/\d+/(.*)", re.DOTALL)
CandidateLabel = Literal["index", "number", "letter", "text"]  # from 0, from 1, from A, the candidate itself
LABEL_WAYS: tuple[CandidateLabel, ...] = get_args(CandidateLabel)
CALLED: dict[CandidateLabel, str] = {
    "index": "a number from 0",
    "number": "a number from 1",
    "letter": "a letter",
    "text": "a candidate's text",
}


@dataclass(frozen=True)
class ChoiceColumns:
    """Where candidates stand: in one column of lists, or in a column each."""

    candidates: tuple[str, ...]
    question: str | None = None  # the column of what every candidate answers, where the first text is its context


# --- one text for all candidates ------------------------------------------------------------------------------------


def join_candidates(question: str, candidates: Sequence[Any]) -> str:
    """What candidates answer, if that is not the first text, and the candidates. A ValueError says what is wrong."""
    texts = [_cell_text(candidate) for candidate in candidates]
    while texts and not texts[-1]:
        texts.pop()  # files with a column per candidate leave the last ones empty
    if "" in texts:
        raise ValueError(f"candidate {texts.index('') + 1} is empty")
    if len(texts) < FEWEST:
        raise ValueError(f"a choice needs at least two candidates, found {len(texts)}")
    return MARK.join([_cell_text(question), *texts])


def split_candidates(text: str) -> tuple[str, list[str]]:
    """The question, which may be empty, and the candidates."""
    question, *candidates = text.split(MARK)
    return question, candidates


def longest_candidate(text: str) -> str:
    """The longest of the candidates, after the question if that stands with them."""
    question, candidates = split_candidates(text)
    return f"{question} {max(candidates, key=len)}".strip()


def candidate_spans(text: str) -> list[tuple[int, int]]:
    """Where each candidate stands in the joined text."""
    spans: list[tuple[int, int]] = []
    question, candidates = split_candidates(text)
    start = len(question)
    for candidate in candidates:
        start += len(MARK)
        spans.append((start, start + len(candidate)))
        start += len(candidate)
    return spans


def _cell_text(cell: Any) -> str:
    if cell is None or cell != cell:  # NaN is how some tools write an empty cell
        return ""
    if isinstance(cell, bytes | dict | list):
        raise ValueError(f"a candidate is {type(cell).__name__}, not a text")
    return str(cell).replace(MARK, " ").strip()


# --- files ----------------------------------------------------------------------------------------------------------


def join_chunk(chunk: Chunk, text: tuple[str, ...], label: str | None, choices: ChoiceColumns) -> Chunk:
    """The same rows with all candidates in the second text column, and labels by what they can mean."""
    at = {name: number for number, name in enumerate(chunk.columns)}

    def join_row(cells: list[Any]) -> list[Any]:
        joined = list(cells)
        candidates = _candidates_of_row(cells, at, choices)
        question = cells[at[choices.question]] if choices.question is not None else ""
        if choices.question is not None and not _cell_text(question):
            raise ValueError(f"empty text in column '{choices.question}'")
        joined[at[text[1]]] = join_candidates(question, candidates)
        if label is not None:
            joined[at[label]] = write_label(cells[at[label]], split_candidates(joined[at[text[1]]])[1])
        return joined

    return with_rows(chunk, join_row)


def _candidates_of_row(cells: list[Any], at: dict[str, int], choices: ChoiceColumns) -> list[Any]:
    if len(choices.candidates) > 1:
        return [cells[at[name]] for name in choices.candidates]
    name = choices.candidates[0]
    cell = cells[at[name]]
    if not isinstance(cell, list | tuple):
        found = "nothing" if cell is None else repr(cell)[:40]
        raise ValueError(f"expected a list of candidates in column '{name}', found {found}")
    return list(cell)


# --- labels ---------------------------------------------------------------------------------------------------------


def write_label(cell: Any, candidates: Sequence[str]) -> str:
    """Which candidate a label means, by each way of reading it: '0,1,,2/4'; empty where there is no label."""
    label = normalise(cell)
    if not label:
        return ""
    places: list[str] = []
    for way in LABEL_WAYS:
        place = _place(label, way, candidates)
        places.append("" if place is None else str(place))
    return f"{','.join(places)}/{len(candidates)}/{label}"


def file_label(written: str) -> str:
    """What the file has, of a label that `write_label` wrote; any other label as it is."""
    match = WRITTEN.match(written)
    return match[1] if match else written


def _place(label: str, way: CandidateLabel, candidates: Sequence[str]) -> int | None:
    """Which candidate it is, so read; None where it is none."""
    place: int | None = None
    if way == "text":
        equal = [number for number, candidate in enumerate(candidates) if normalise(candidate) == label]
        return equal[0] if len(equal) == 1 else None
    if way == "letter":
        if len(label) == 1 and "A" <= label.upper() <= "Z":
            place = ord(label.upper()) - ord("A")
    elif label.isascii() and label.isdigit():
        place = int(label) - (way == "number")
    return place if place is not None and 0 <= place < len(candidates) else None


def read_label(written: str, way: CandidateLabel) -> int:
    """The number of the right candidate, from 0; a BadLabel where the label is none, so read."""
    places, count, label = written.split("/", 2)
    place = places.split(",")[LABEL_WAYS.index(way)]
    if not place:
        raise BadLabel(f"label '{label}' is none of the {count} candidates (labels here are {CALLED[way]})")
    return int(place)


def label_way(labels: Iterable[str]) -> CandidateLabel:
    """How the labels of a file are to be read: the way that fits most of them.

    Numbers count from 0 where a 0 is among them, or none is as large as the number of candidates. A ValueError says
    that two ways fit all labels and do not mean the same.
    """
    fits = dict.fromkeys(LABEL_WAYS, 0)
    has_zero = False
    written_labels = list(labels)
    for written in written_labels:
        places, _, label = written.split("/", 2)
        has_zero = has_zero or label == "0"
        for way, place in zip(LABEL_WAYS, places.split(","), strict=True):
            fits[way] += bool(place)
    from_one = not has_zero and fits["number"] > fits["index"]
    fits["index" if from_one else "number"] = 0
    best = max(LABEL_WAYS, key=lambda way: fits[way])
    for way in LABEL_WAYS:
        if way != best and fits[way] == fits[best] > 0 and _disagree(written_labels, best, way):
            raise ValueError(
                f"labels could be {CALLED[best]} or {CALLED[way]}, and mean different candidates; write them as letters"
            )
    return best


def _disagree(labels: Sequence[str], first: CandidateLabel, second: CandidateLabel) -> bool:
    ways = LABEL_WAYS.index(first), LABEL_WAYS.index(second)
    for written in labels:
        places = written.split("/", 1)[0].split(",")
        if places[ways[0]] != places[ways[1]]:
            return True
    return False


def spell_label(place: int, way: CandidateLabel, candidates: Sequence[str]) -> str:
    """A candidate as a file of this way names it."""
    if way == "text":
        return candidates[place]
    if way == "letter":
        return chr(ord("A") + place)
    return str(place + (way == "number"))
