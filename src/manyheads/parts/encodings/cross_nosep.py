"""Both sentences in one input, with nothing between them."""

from __future__ import annotations

from manyheads.parts.encodings.cross import Cross
from manyheads.registry import register


@register("encodings", "cross-nosep", paper="A")
class CrossNoSeparator(Cross):
    """[CLS] s1 s2 [SEP]: as cross with no separator between the sentences.

    `special_tokens: each` joins the ids of two sentences that are framed already, and adds nothing between them:
    [CLS] s1 [SEP] [CLS] s2 [SEP]. So paper A's "pure concatenation" of input ids is read here.
    """

    separator = False
