"""Rows of multiple choice: candidates as one text, and which of them a label means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.data.choices import (
    MARK,
    ChoiceColumns,
    candidate_spans,
    file_label,
    join_candidates,
    join_chunk,
    label_way,
    read_label,
    spell_label,
    split_candidates,
    write_label,
)
from manyheads.data.chunk import Chunk
from manyheads.data.labels import BadLabel

TEXT = st.text(min_size=1).filter(lambda text: text.strip() and MARK not in text).map(str.strip)


@given(st.text().map(lambda text: text.replace(MARK, " ").strip()), st.lists(TEXT, min_size=2, max_size=5))
def test_candidates_come_out_as_they_went_in(question: str, candidates: list[str]) -> None:
    joined = join_candidates(question, candidates)
    assert split_candidates(joined) == (question, candidates)
    assert [joined[start:end] for start, end in candidate_spans(joined)] == candidates


@pytest.mark.parametrize(
    ("candidates", "reason"),
    [
        (["a"], "needs at least two candidates, found 1"),
        (["a", "", "b"], "candidate 2 is empty"),
        ([None, float("nan")], "found 0"),
        (["a", {"text": "b"}], "a candidate is dict, not a text"),
    ],
)
def test_rows_without_a_choice_are_refused(candidates: list[object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        join_candidates("", candidates)


def test_empty_columns_at_the_end_are_no_candidates() -> None:
    assert split_candidates(join_candidates("", ["a", 2, "", None])) == ("", ["a", "2"])


@pytest.mark.parametrize(
    ("labels", "way", "places"),
    [
        (["0", "2", "1"], "index", [0, 2, 1]),
        (["1", "3", "2"], "number", [0, 2, 1]),
        (["1", "2", "1"], "index", [1, 2, 1]),  # no 3 of 3 is among them
        (["A", "c", "B"], "letter", [0, 2, 1]),
        (["tea", "soup", " wine "], "text", [0, 2, 1]),
        ([1, 0, 2], "index", [1, 0, 2]),
    ],
)
def test_labels_are_read_as_they_look(labels: list[object], way: str, places: list[int]) -> None:
    candidates = [["tea", "wine", "soup"], ["tea", "wine", "soup"], ["milk", "wine", "x"]]
    written = [write_label(label, row) for label, row in zip(labels, candidates, strict=True)]
    assert label_way(written) == way
    assert [read_label(label, way) for label in written] == places  # type: ignore[arg-type]
    for place, row, label in zip(places, candidates, labels, strict=True):
        assert spell_label(place, way, row).lower() == str(label).strip().lower()  # type: ignore[arg-type]
    assert [file_label(label) for label in written] == [str(label).strip() for label in labels]


def test_labels_that_mean_two_things_are_refused() -> None:
    with pytest.raises(ValueError, match="could be a number from 0 or a candidate's text"):
        label_way([write_label("1", ["1", "0"]), write_label("0", ["1", "0"])])
    assert label_way([write_label("1", ["0", "1"]), write_label("0", ["0", "1"])]) == "index", "they mean the same"


def test_a_label_that_is_no_candidate_says_so() -> None:
    with pytest.raises(BadLabel, match=r"label 'D' is none of the 3 candidates \(labels here are a letter\)"):
        read_label(write_label("D", ["x", "y", "z"]), "letter")
    with pytest.raises(BadLabel, match="none of the 2"):
        read_label(write_label("same", ["same", "same"]), "text")


def test_bad_rows_of_a_chunk_keep_their_reasons() -> None:
    rows = [["q", ["a", "b"], "B"], None, ["q", "a", "B"], ["q", ["a"], "A"]]
    chunk = Chunk(["q", "options", "label"], rows, [1, 2, 3, 4], ["malformed"])  # type: ignore[arg-type]
    joined = join_chunk(chunk, ("q", "options"), "label", ChoiceColumns(("options",)))
    assert joined.cells[0] == ["q", f"{MARK}a{MARK}b", ",,1,/2/B"]
    assert joined.cells[1:] == [None, None, None]
    assert joined.faults[0] == "malformed"
    assert joined.faults[1].startswith("expected a list of candidates in column 'options', found 'a'")
    assert joined.faults[2] == "a choice needs at least two candidates, found 1"
