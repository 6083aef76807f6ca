"""Where words are: by rule, of lists, and what spans of characters make of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.data.labels import BadLabel
from manyheads.data.tags import entities
from manyheads.data.words import GIVEN, cut_words, join_words, tags_of_spans, words_of_text


def words(text: str, rule: Any) -> list[str]:
    return [text[start:end] for start, end in cut_words(text, rule)]


CUT = [  # text, between spaces, without edges, letters
    ("London's.", "London's.", "London 's .", "London ' s ."),
    ("@you (U.S.) well-known #a!", "@you (U.S.) well-known #a!", "@you ( U.S . ) well-known #a !", None),
    ("cafe\u0301, e\u0301te\u0301", "cafe\u0301, e\u0301te\u0301", "cafe\u0301 , e\u0301te\u0301", None),
    ("👩‍🚀👍🏽 ok🙂", "👩‍🚀👍🏽 ok🙂", "👩‍🚀 👍🏽 ok 🙂", "👩‍🚀 👍🏽 ok 🙂"),
    ("שלום, עולם.", "שלום, עולם.", "שלום , עולם .", "שלום , עולם ."),
    ("हिन्दी में", "हिन्दी में", "हिन्दी में", "हिन्दी में"),
    ("a\r\nb", "a b", "a b", "a b"),
    ("日本語 テスト。", "日本語 テスト。", "日本語 テスト 。", "日本語 テスト 。"),
    ("20\u00a0000 x", "20\u00a0000|x", "20\u00a0000|x", "20 000 x"),
]


@pytest.mark.parametrize(("text", "spaces", "edges", "letters"), CUT)
def test_texts_are_cut_by_rule(text: str, spaces: str, edges: str, letters: str | None) -> None:
    for rule, expected in (("spaces", spaces), ("edges", edges), ("letters", letters)):
        if expected is not None:
            assert words(text, rule) == expected.split("|" if "|" in expected else " "), rule


@given(st.text(), st.sampled_from(["spaces", "edges", "letters"]))
def test_every_letter_is_in_one_word(text: str, rule: Any) -> None:
    spans = cut_words(text, rule)
    assert all(start < end for start, end in spans)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
    covered = "".join(text[start:end] for start, end in spans)
    assert [letter for letter in covered if letter.isalnum()] == [letter for letter in text if letter.isalnum()]


@given(st.lists(st.text(min_size=1).filter(lambda word: word.strip() != ""), min_size=1))
def test_words_of_a_list_are_found_again(given_words: list[str]) -> None:
    text = join_words(given_words)
    found = words_of_text(text, GIVEN, "letters")
    shown = [text[start:end] for start, end in found.spans]
    assert len(shown) == len(given_words)
    for word, given_word in zip(shown, given_words, strict=True):
        assert [letter for letter in word if not letter.isspace()] == [x for x in given_word.strip() if not x.isspace()]


@given(st.lists(st.sampled_from(["é", "e\u0301", "🙂", "a", "שלום", " ", "\r\n", ".", "👩‍🚀"]), min_size=1), st.data())
def test_spans_become_tags_and_tags_the_same_spans(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    cut = cut_words(text, "letters")
    spans: list[list[Any]] = []
    number = 0
    while number < len(cut):
        length = data.draw(st.integers(0, 2))
        if length and number + length <= len(cut):
            spans.append([cut[number][0], cut[number + length - 1][1], data.draw(st.sampled_from(["A", "B"]))])
        number += max(1, length)
    tags = tags_of_spans(text, spans, "letters")
    found = [[cut[entity.first][0], cut[entity.end - 1][1], entity.type] for entity in entities(tags)]
    assert found == spans


@pytest.mark.parametrize(
    ("span", "reason"),
    [
        ({"start": 0, "end": 3, "label": "X"}, "span 0–3 'Lon' begins or ends inside a word (words: letters)"),
        ([0, 99, "X"], "span 0–99 is not within the text, which has 14 characters"),
        ({"start": 0, "end": 6}, "a span is {start, end, label}, found (0, 6, None)"),
        ([6, 7, "X"], "a span holds nothing but spaces"),
    ],
)
def test_spans_that_do_not_fit_are_refused(span: Any, reason: str) -> None:
    with pytest.raises(BadLabel) as fault:
        tags_of_spans("London is rare", [span], "letters")
    assert str(fault.value) == reason.replace("rare, which has 14", "rare, which has 14")


def test_overlapping_spans_are_refused_and_spaces_at_their_ends_are_not() -> None:
    with pytest.raises(BadLabel, match="overlaps another span"):
        tags_of_spans("Ann B. Cole", [[0, 6, "PER"], [4, 11, "PER"]], "letters")
    assert tags_of_spans("Ann B. Cole", [[0, 4, "PER"]], "letters") == ["B-PER", "O", "O", "O"]
