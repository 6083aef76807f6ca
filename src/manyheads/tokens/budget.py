"""The token budget of an encoder pass: the one place that cuts examples into passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def split_by_tokens(items: Iterable[Item], size: Callable[[Item], int], tokens_per_pass: int) -> Iterator[list[Item]]:
    """Items in their order, cut where the next one would exceed the budget; `size` is an item's tokens.

    An item of more tokens than the budget is a pass of its own. Lazy: items of later passes are not made yet.
    """
    passing: list[Item] = []
    used = 0
    for item in items:
        tokens = size(item)
        if used and used + tokens > tokens_per_pass:
            yield passing
            passing, used = [], 0
        passing.append(item)
        used += tokens
    if passing:
        yield passing
