"""Sequences laid end to end: packed batches, with no padding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

PositionsNeeded = Literal["first", "last", "all"]  # which token states of a sequence are wanted of the encoder


@dataclass(frozen=True)
class Sequence:
    """One encoder input: ids with special tokens, a segment id per token, and which states are wanted."""

    ids: np.ndarray
    segments: np.ndarray
    positions_needed: PositionsNeeded = "all"
    origin: tuple[str, int, int] | None = None  # (rows, row, side) where several tasks read the same rows
    states: np.ndarray | None = None  # [tokens, width] after the first `layer` layers, where those were kept …
    layer: int = 0  # … or [kept states, width] without any ids, where nothing above needs the tokens


def merge_equal(sequences: list[Sequence], everywhere: bool) -> tuple[list[Sequence], list[int]]:
    """The distinct sequences, and for each given one which of them it is: what is equal is encoded once.

    `everywhere`: wherever two are equal, which is exact where the encoder draws no dropout; else only those of one
    origin, which are the same text drawn once for several tasks.
    """
    found: dict[tuple[object, ...], int] = {}
    distinct: list[Sequence] = []
    places: list[int] = []
    for number, one in enumerate(sequences):
        source = None if everywhere else one.origin or number
        location = found.setdefault((one.ids.tobytes(), one.segments.tobytes(), source), len(distinct))
        if location == len(distinct):
            distinct.append(one)
        elif distinct[location].positions_needed != one.positions_needed:
            distinct[location] = replace(distinct[location], positions_needed="all")
        places.append(location)
    return distinct, places


def truncate_pair(first: int, second: int, room: int) -> tuple[int, int]:
    """Lengths that fit into `room`, taking from the longer sentence first; of equal ones the first loses one more."""
    if first + second <= room:
        return first, second
    short = min(first, second, room // 2)
    return (short, room - short) if first <= second else (room - short, short)


@dataclass(frozen=True)
class Group:
    """Neighbouring sequences of one length, of each of which the same number of states is kept."""

    count: int
    length: int
    kept: int


@dataclass(frozen=True)
class PackedTokens:
    """Sequences laid end to end, shortest first, so that those of equal length lie side by side.

    `starts` and `kept_starts` are in the order in which the sequences were given.
    """

    ids: Tensor  # [tokens]
    positions: Tensor  # [tokens]
    segments: Tensor  # [tokens]
    groups: tuple[Group, ...]
    starts: Tensor  # [sequences] row of each sequence's first token
    lengths: Tensor  # [sequences]
    kept: Tensor | None  # [kept rows] rows of which the last layer's states are wanted; None: all of them
    kept_starts: Tensor  # [sequences] where each sequence's kept states start in the encoder's output
    kept_lengths: Tensor  # [sequences]
    states: Tensor | None = None  # [tokens, width] after the first layers, where those were kept
    layer: int = 0  # how many layers that were

    def __len__(self) -> int:
        return len(self.ids)


def pack(sequences: Iterable[Sequence], device: torch.device | str = "cpu") -> PackedTokens:
    """Lay sequences end to end. No padding is made; nothing downstream of here ever sees any."""
    given = list(sequences)
    if given[0].states is not None and not len(given[0].ids):
        return _pack_states(given, device)
    lengths = np.array([len(one.ids) for one in given])
    kept_lengths = np.array(
        [length if one.positions_needed == "all" else 1 for one, length in zip(given, lengths, strict=True)]
    )
    order = np.lexsort((kept_lengths, lengths))
    starts = np.empty(len(given), dtype=np.int64)
    kept_starts = np.empty(len(given), dtype=np.int64)
    starts[order] = _starts(lengths[order])
    kept_starts[order] = _starts(kept_lengths[order])
    ids = np.concatenate([given[i].ids for i in order]).astype(np.int64)
    segments = np.concatenate([given[i].segments for i in order]).astype(np.int64)
    positions = np.arange(len(ids)) - np.repeat(starts[order], lengths[order])
    kept = None
    if (kept_lengths < lengths).any():
        rows = [
            np.arange(starts[i], starts[i] + lengths[i])
            if given[i].positions_needed == "all"
            else np.array([starts[i] + (lengths[i] - 1 if given[i].positions_needed == "last" else 0)])
            for i in order
        ]
        kept = torch.from_numpy(np.concatenate(rows)).to(device)
    shapes, counts = np.unique(np.stack([lengths, kept_lengths], axis=1), axis=0, return_counts=True)
    return PackedTokens(
        ids=torch.from_numpy(ids).to(device),
        positions=torch.from_numpy(positions).to(device),
        segments=torch.from_numpy(segments).to(device),
        groups=tuple(
            Group(int(n), int(length), int(kept_length))
            for (length, kept_length), n in zip(shapes, counts, strict=True)
        ),
        starts=torch.from_numpy(starts).to(device),
        lengths=torch.from_numpy(lengths).to(device),
        kept=kept,
        kept_starts=torch.from_numpy(kept_starts).to(device),
        kept_lengths=torch.from_numpy(kept_lengths).to(device),
        states=_side_by_side([given[i].states for i in order], device),
        layer=given[0].layer,
    )


def _pack_states(given: list[Sequence], device: torch.device | str) -> PackedTokens:
    """Kept states that heads read as they are: there is nothing left for the encoder to do."""
    lengths = np.array([0 if one.states is None else len(one.states) for one in given])
    nothing = torch.empty(0, dtype=torch.long, device=device)
    starts, kept_lengths = (torch.from_numpy(one).to(device) for one in (_starts(lengths), lengths))
    states = _side_by_side([one.states for one in given], device)
    return PackedTokens(
        nothing, nothing, nothing, (), starts, kept_lengths, None, starts, kept_lengths, states, given[0].layer
    )


def _side_by_side(states: list[np.ndarray | None], device: torch.device | str) -> Tensor | None:
    found = [one for one in states if one is not None]
    return torch.from_numpy(np.concatenate(found)).to(device) if found else None


def _starts(lengths: np.ndarray) -> np.ndarray:
    return np.cumsum(lengths) - lengths
