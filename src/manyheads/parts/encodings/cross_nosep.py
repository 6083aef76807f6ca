"""Both sentences in one input, with nothing between them."""

from __future__ import annotations

from manyheads.parts.encodings.cross import Cross
from manyheads.registry import register


@register("encodings", "cross-nosep", paper="A")
class CrossNoSeparator(Cross):
    """[CLS] s1 s2 [SEP]: as cross with no separator between the sentences."""

    separator = False
