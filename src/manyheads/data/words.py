"""The words of a text: where each begins and ends, and the tags that character spans give them.

Words that a file has as a list are joined with one space each, so that a text stays a text for every other task; spaces
inside a word become no-break spaces, so that the words can be told apart again and no offset changes.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from manyheads.data.labels import BadLabel

WordRule = Literal["spaces", "edges", "letters"]
Spans = list[tuple[int, int]]  # (start, end) of each word, in characters
GIVEN = -1  # −1 − a text's indent in place of it: its words are those between spaces, whatever the rule
OUTSIDE = "O"  # the tag of a word that is in no entity
NO_BREAK_SPACE = "\u00a0"
SPACE = re.compile(r"\s")
BETWEEN_SPACES = re.compile(r"[^ \t\n\r\f\v\u0085\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]+")
# what stays with a word though it is neither a letter nor a digit: joiners, and modifiers of the sign before
JOINERS = "\u200c\u200d"
SKIN_TONES = "\U0001f3fb-\U0001f3ff"
CLITIC = re.compile(r"['\u2019](?:s|S)$")


@dataclass(frozen=True)
class TextWords:
    """A text and its words. `indent`: how many characters stood before the text where it came from."""

    text: str
    spans: Spans
    indent: int = 0


def words_of_text(text: str, indent: int, rule: WordRule) -> TextWords:
    """A text that was read with this indent, or whose words are `GIVEN`."""
    if indent <= GIVEN:
        return TextWords(text, cut_words(text, "spaces"), GIVEN - indent)
    return TextWords(text, cut_words(text, rule), indent)


def join_words(words: Sequence[Any]) -> str:
    """A list of words as one text. A ValueError says what is wrong with the list."""
    joined: list[str] = []
    for number, word in enumerate(words, start=1):
        if not isinstance(word, str):
            raise ValueError(f"word {number} is {word!r}, not a text")
        word = word.strip()
        if not word:
            raise ValueError(f"word {number} is empty")
        joined.append(SPACE.sub(NO_BREAK_SPACE, word))
    return " ".join(joined)


def cut_words(text: str, rule: WordRule) -> Spans:
    """The words of a text.

    spaces   what stands between spaces
    edges    the same without punctuation at its edges, each sign of which is a word, and so is 's
    letters  runs of letters and digits; any other sign is a word of its own
    """
    if rule == "letters":
        return [match.span() for match in _letters_or_sign().finditer(text)]
    between = [match.span() for match in BETWEEN_SPACES.finditer(text)]
    if rule == "spaces":
        return between
    spans: Spans = []
    for start, end in between:
        spans += _without_edges(text, start, end)
    return spans


def _without_edges(text: str, start: int, end: int) -> Spans:
    """What stands between two spaces, its punctuation cut off; @name and #topic keep their sign."""
    pieces = [(start + first, start + last) for first, last in cut_words(text[start:end], "letters")]
    first, last = 0, len(pieces)
    while first < last and not _is_word(text, pieces[first]):
        first += 1
    while last > first and not _is_word(text, pieces[last - 1]):
        last -= 1
    if first == last:
        return pieces  # nothing but signs
    middle = (pieces[first][0], pieces[last - 1][1])
    if first and text[pieces[first - 1][0]] in "@#":
        first -= 1
        middle = (pieces[first][0], middle[1])
    clitic = CLITIC.search(text, *middle)
    words = [middle]
    if clitic and clitic.start() > middle[0]:
        words = [(middle[0], clitic.start()), (clitic.start(), middle[1])]
    return [*pieces[:first], *words, *pieces[last:]]


def _is_word(text: str, piece: tuple[int, int]) -> bool:
    return text[piece[0]].isalnum() or text[piece[0]] == "_"


@cache
def _letters_or_sign() -> re.Pattern[str]:
    """Runs of letters and digits with their marks, or one sign with its marks; 👩‍🚀 is one sign."""
    marks = _marks() + JOINERS
    flag = "[\U0001f1e6-\U0001f1ff]{2}"
    sign = rf"[^\w\s{marks}][{marks}{SKIN_TONES}]*"
    return re.compile(rf"{flag}|(?:[^\W]|(?<=\w)[{marks}])(?:\w|[{marks}])*|{sign}(?:(?<=\u200d){sign})*|[{marks}]+")


def _marks() -> str:
    """Every character that belongs to the one before it, as ranges of a character class."""
    ranges: list[str] = []
    first = last = -1
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code))[0] != "M":
            continue
        if code != last + 1:
            ranges.append(f"{chr(first)}-{chr(last)}" if first >= 0 else "")
            first = code
        last = code
    return "".join([*ranges, f"{chr(first)}-{chr(last)}"])


# --- spans of characters → a tag for every word -------------------------------------------------------------------


def is_span(cell: Any) -> bool:
    """Whether an entry of a list of labels says where it begins and ends, as an object or as [start, end, label]."""
    if isinstance(cell, dict):
        return "start" in cell and "end" in cell
    if isinstance(cell, list | tuple) and len(cell) == 3:
        return isinstance(cell[0], int) and isinstance(cell[1], int) and isinstance(cell[2], str)
    return False


def tags_of_spans(text: str, spans: Iterable[Any], rule: WordRule) -> list[str]:
    """BIO tags for the words of a text as its file has it. A BadLabel says which span does not fit, and why."""
    words = cut_words(text, rule)
    word_starting = {start: number for number, (start, _) in enumerate(words)}
    word_ending = {end: number for number, (_, end) in enumerate(words)}
    tags = [OUTSIDE] * len(words)
    for span in spans:
        start, end, label = _read_span(span, text)
        first, last = word_starting.get(start), word_ending.get(end)
        shown = f"span {start}–{end} '{text[start:end]}'"
        if first is None or last is None:
            raise BadLabel(f"{shown} begins or ends inside a word (words: {rule})")
        if any(tag != OUTSIDE for tag in tags[first : last + 1]):
            raise BadLabel(f"{shown} overlaps another span")
        tags[first] = f"B-{label}"
        for number in range(first + 1, last + 1):
            tags[number] = f"I-{label}"
    return tags


def _read_span(span: Any, text: str) -> tuple[int, int, str]:
    """(start, end, label), without spaces at its ends."""
    if isinstance(span, dict):
        label = span.get("label", span.get("type", span.get("entity")))
        span = (span.get("start"), span.get("end"), label)
    start, end, label = span
    whole_numbers = isinstance(start, int) and isinstance(end, int)
    if not whole_numbers or not isinstance(label, str) or not label.strip():
        raise BadLabel(f"a span is {{start, end, label}}, found {span!r}")
    if not 0 <= start < end <= len(text):
        raise BadLabel(f"span {start}–{end} is not within the text, which has {len(text)} characters")
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start == end:
        raise BadLabel("a span holds nothing but spaces")
    return start, end, label.strip()
