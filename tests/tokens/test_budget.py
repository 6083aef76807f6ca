"""The token budget: passes in order, none above the budget but single items that are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from manyheads.tokens.budget import split_by_tokens


@given(st.lists(st.integers(0, 50)), st.integers(1, 100))
def test_passes_keep_the_order_and_the_budget(sizes: list[int], budget: int) -> None:
    passes = list(split_by_tokens(list(enumerate(sizes)), lambda item: item[1], budget))
    assert [item for passing in passes for item in passing] == list(enumerate(sizes))
    assert all(passes)
    for passing, following in pairwise(passes):
        used = sum(size for _, size in passing)
        assert used + following[0][1] > budget, "no pass is cut before it is full"
    for passing in passes:
        used = sum(size for _, size in passing)
        assert used <= budget or sum(size > 0 for _, size in passing) == 1, "an item that is too large goes alone"


def test_items_are_made_when_their_pass_comes() -> None:
    made = []

    def make() -> Iterator[int]:
        for number in range(10):
            made.append(number)
            yield number

    passes = split_by_tokens(make(), lambda item: 2, 4)
    assert next(passes) == [0, 1]
    assert made == [0, 1, 2], "the first of the next pass shows that this one is full"


def test_nothing_makes_no_pass() -> None:
    assert list(split_by_tokens([], lambda item: 1, 4)) == []
