"""Schemes of tags: recognised, converted, repaired with a count; and the entities that tags say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.data.tags import Entity, Scheme, TagNames, all_entities, as_bio, detect_scheme, entities
from manyheads.storage.ragged import Ragged

NAMES = ("O", "B-x", "I-x", "B-y", "I-y")
SENTENCES = st.lists(st.lists(st.sampled_from(NAMES), max_size=7), min_size=1, max_size=5)
CLEAN = ["O", "B-x", "I-x", "I-x", "B-x", "O", "B-y", "B-x"]


def written(tags: list[str], scheme: Scheme) -> list[str]:
    """BIO without faults as another scheme writes it, by the rules' own words."""
    found = []
    for number, tag in enumerate(tags):
        prefix, _, entity_type = tag.partition("-")
        before = tags[number - 1].partition("-") if number else ("O", "", "")
        after = tags[number + 1] if number + 1 < len(tags) else "O"
        if prefix == "O" or scheme == "BIO":
            found.append(tag)
        elif scheme == "IOB1":
            needed = prefix == "B" and before[0] != "O" and before[2] == entity_type
            found.append(f"{'B' if needed else 'I'}-{entity_type}")
        else:
            ends = after != f"I-{entity_type}"
            found.append(f"{ {('B', True): 'S', ('I', True): 'E'}.get((prefix, ends), prefix) }-{entity_type}")
    return found


@given(SENTENCES)
def test_every_scheme_says_the_same_entities(sentences: list[list[str]]) -> None:
    for tags in sentences:
        clean, _ = as_bio(tags, "BIO")
        for scheme in ("BIO", "IOB1", "BIOES"):
            assert as_bio(written(clean, scheme), scheme) == (clean, 0)
        assert entities(tags) == entities(clean), "a repair changes no entity"


def test_schemes_are_seen() -> None:
    for scheme in ("BIO", "IOB1", "BIOES"):
        assert detect_scheme([["O"], written(CLEAN, scheme)]) == scheme
    assert detect_scheme([["B-x", "L-x", "U-y", "O"]]) == "BIOES"
    assert detect_scheme([["NOUN", "O"]]) == "plain"
    assert detect_scheme([["B-x", "O", "I-x"]]) == "BIO", "with a fault"
    assert detect_scheme([["B", "I", "O"]]) == "BIO", "of a single type without a name"


@pytest.mark.parametrize(
    ("tags", "scheme", "expected", "repairs"),
    [
        ("O I-x I-x", "BIO", "O B-x I-x", 1),
        ("B-x I-y", "BIO", "B-x B-y", 1),
        ("B-x O E-y S-x I-x", "BIOES", "B-x O B-y B-x B-x", 4),
        ("B-x M-x L-x U-y", "BIOES", "B-x I-x I-x B-y", 0),
        ("I-x B-x I-y", "IOB1", "B-x B-x B-y", 0),
    ],
)
def test_faults_are_repaired_and_counted(tags: str, scheme: Scheme, expected: str, repairs: int) -> None:
    assert as_bio(tags.split(), scheme) == (expected.split(), repairs)


@given(SENTENCES)
def test_entities_all_at_once_are_those_of_each_sentence(sentences: list[list[str]]) -> None:
    names = TagNames.of(NAMES)
    column = Ragged.from_rows([[NAMES.index(tag) for tag in tags] for tags in sentences], np.int64)
    found = all_entities(column, names)
    expected = []
    for start, tags in zip(column.starts, sentences, strict=False):
        expected += [Entity(first + start, end + start, one) for first, end, one in entities(tags)]
    assert list(map(tuple, expected)) == list(
        zip(found.firsts, found.ends, [names.types[one] for one in found.types], strict=True)
    )
    assert len(np.unique(found.keys())) == len(found)
