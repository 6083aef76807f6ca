"""Tags of words as files write entities, and the entities that they say.

BIO (IOB2): B-X begins an entity of type X, I-X goes on with it. IOB1: an entity begins with I-X; B-X only where it
follows another of its type. BIOES (BILOU): E-X (L-X) ends an entity, S-X (U-X) is one of a single word. Plain tags,
such as parts of speech, say nothing of their neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from manyheads.storage.ragged import Ragged

Scheme = Literal["BIO", "IOB1", "BIOES", "plain"]
OUTSIDE = "O"
PREFIXES = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S"}
ENDING = frozenset("ELSU")


class Entity(NamedTuple):
    """Words `first` to `end` (exclusive) are of a type."""

    first: int
    end: int
    type: str


def split_tag(tag: str) -> tuple[str, str] | None:
    """(B, I, E or S; the type) or ('O', ''); None where a tag is none of an entity's."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, dash, entity_type = tag.partition("-")
    if prefix not in PREFIXES or bool(dash) != bool(entity_type):
        return None
    return PREFIXES[prefix], entity_type


def join_tag(prefix: str, entity_type: str) -> str:
    return f"{prefix}-{entity_type}" if entity_type else prefix


def detect_scheme(sentences: Iterable[Sequence[str]]) -> Scheme:
    """What the tags of all sentences look like."""
    prefixes: set[str] = set()
    starts_inside = begins_needlessly = False
    for tags in sentences:
        before = (OUTSIDE, "")
        for tag in tags:
            split = split_tag(tag)
            if split is None:
                return "plain"
            prefix, entity_type = split
            prefixes.add(tag.partition("-")[0])
            goes_on = before[0] != OUTSIDE and before[1] == entity_type
            starts_inside |= prefix == "I" and not goes_on
            begins_needlessly |= prefix == "B" and not goes_on
            before = split
    if not prefixes - {OUTSIDE}:
        return "plain" if not prefixes else "BIO"
    if prefixes & ENDING:
        return "BIOES"
    return "IOB1" if starts_inside and not begins_needlessly else "BIO"


def as_bio(tags: Sequence[str], scheme: Scheme) -> tuple[list[str], int]:
    """Tags as BIO, and how many of them break the rules of their scheme and so were repaired.

    I-X and E-X that go on with nothing begin an entity; an entity ends where the next word does not go on with it.
    Plain tags stay as they are.
    """
    if scheme == "plain":
        return list(tags), 0
    converted: list[str] = []
    repairs = 0
    open_type: str | None = None  # of the entity that the next word may go on with
    for tag in tags:
        prefix, entity_type = split_tag(tag) or (OUTSIDE, "")
        goes_on = prefix in "IE" and open_type == entity_type
        repairs += _broken_rules(scheme, prefix, goes_on, open_type)
        converted.append(OUTSIDE if prefix == OUTSIDE else join_tag("I" if goes_on else "B", entity_type))
        open_type = None if prefix in (OUTSIDE, "E", "S") else entity_type
    if scheme == "BIOES" and open_type is not None:
        repairs += 1
    return converted, repairs


def _broken_rules(scheme: Scheme, prefix: str, goes_on: bool, open_type: str | None) -> int:
    """At a word: an entity before it without an end, and one that it goes on with but that nothing began."""
    without_end = scheme == "BIOES" and open_type is not None and not goes_on
    without_beginning = scheme != "IOB1" and prefix in "IE" and not goes_on
    return without_end + without_beginning


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of a sentence's BIO tags; an I-X that goes on with nothing begins one."""
    listed: list[Entity] = []
    for number, tag in enumerate(tags):
        prefix, entity_type = split_tag(tag) or (OUTSIDE, "")
        if prefix == OUTSIDE:
            continue
        last = listed[-1] if listed else None
        if prefix == "I" and last is not None and last.end == number and last.type == entity_type:
            listed[-1] = last._replace(end=number + 1)
        else:
            listed.append(Entity(number, number + 1, entity_type))
    return listed


# --- many sentences at once ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TagNames:
    """Class names of BIO tags as numbers."""

    types: tuple[str, ...]  # of entities, in the classes' order
    type_of: np.ndarray  # [classes] index into `types`; -1 outside
    begins: np.ndarray  # [classes] whether a class is the beginning of an entity

    @classmethod
    def of(cls, names: Sequence[str]) -> TagNames:
        split = [split_tag(name) or (OUTSIDE, "") for name in names]
        types = tuple(dict.fromkeys(entity_type for prefix, entity_type in split if prefix != OUTSIDE))
        type_of = [-1 if prefix == OUTSIDE else types.index(entity_type) for prefix, entity_type in split]
        return cls(types, np.array(type_of), np.array([prefix == "B" for prefix, _ in split]))


@dataclass(frozen=True)
class EntityColumn:
    """The entities of all sentences, in their order. Words are counted through all sentences."""

    firsts: np.ndarray  # [entities]
    ends: np.ndarray  # [entities]
    types: np.ndarray  # [entities] index into the types

    def __len__(self) -> int:
        return len(self.firsts)

    def keys(self) -> np.ndarray:
        """A number for each entity; equal ones are the same words with the same type."""
        return (self.firsts << 40) + ((self.ends - self.firsts) << 20) + self.types


def all_entities(classes: Ragged, names: TagNames) -> EntityColumn:
    """The entities of BIO tags as class indices, as `entities` finds them sentence by sentence."""
    types = names.type_of[classes.values]
    starts_sentence = np.zeros(len(types) + 1, dtype=bool)
    starts_sentence[classes.starts] = True
    before = np.concatenate([[-1], types[:-1]])
    new = names.begins[classes.values] | (types != before) | starts_sentence[:-1]
    begins = new & (types >= 0)
    stops = np.flatnonzero(np.append(new | (types < 0), True))  # an entity goes to the next of these
    firsts = np.flatnonzero(begins)
    ends = stops[np.searchsorted(stops, firsts, side="right")]
    return EntityColumn(firsts, ends, types[firsts])
