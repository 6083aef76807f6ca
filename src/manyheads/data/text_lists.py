"""Several texts of a row as one string, so that a column of lists is a column of strings."""

from __future__ import annotations

from collections.abc import Iterable

BETWEEN = "\x1f"  # the unit separator: no text that people write holds it


def join_texts(texts: Iterable[str]) -> str:
    """A separator inside a text becomes a space."""
    return BETWEEN.join(text.replace(BETWEEN, " ") for text in texts)


def split_texts(joined: str) -> list[str]:
    """What `join_texts` joined; no text where it is empty."""
    return joined.split(BETWEEN) if joined else []
