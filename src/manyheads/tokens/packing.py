"""Sequences laid end to end: packed batches, with no padding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
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
    # [words] which token each word begins with, where words have labels of their own; of a window those it answers for
    words: np.ndarray | None = None


def merge_equal(sequences: list[Sequence], everywhere: bool) -> tuple[list[Sequence], list[int]]:
    """The distinct sequences, and for each input which of them it is: what is equal is encoded once.

    `everywhere`: wherever two are equal, which is exact where the encoder draws no dropout; else only those of one
    origin, which are the same text drawn once for several tasks.
    """
    index_of: dict[tuple[object, ...], int] = {}
    distinct: list[Sequence] = []
    indices: list[int] = []
    for number, sequence in enumerate(sequences):
        source = None if everywhere else sequence.origin or number
        key = (sequence.ids.tobytes(), sequence.segments.tobytes(), source)
        index = index_of.setdefault(key, len(distinct))
        if index == len(distinct):
            distinct.append(sequence)
        elif distinct[index].positions_needed != sequence.positions_needed:
            distinct[index] = replace(distinct[index], positions_needed="all")
        indices.append(index)
    return distinct, indices


@dataclass(frozen=True)
class Words:
    """The words of some inputs, one input after the other."""

    first_tokens: Tensor  # [words] the number of each word's first token in its input
    inputs: Tensor  # [words] which input each word is of
    examples: Tensor  # [words] which example each word is of: a long text is several inputs
    counts: Tensor  # [examples] how many words each example has

    @classmethod
    def of(cls, examples: list[list[Sequence]], device: torch.device | str) -> Words | None:
        """Of the inputs of each example; None where they do not say where their words are."""
        import torch

        firsts: list[np.ndarray] = []
        counts: list[int] = []
        for sequences in examples:
            own = [sequence.words for sequence in sequences if sequence.words is not None]
            firsts += own
            counts.append(sum(map(len, own)))
        if not firsts:
            return None
        inputs = np.repeat(np.arange(len(firsts)), [len(first) for first in firsts])
        return cls(
            torch.from_numpy(np.concatenate(firsts)).to(device),
            torch.from_numpy(inputs).to(device),
            torch.from_numpy(np.repeat(np.arange(len(counts)), counts)).to(device),
            torch.tensor(counts, device=device),
        )

    def sum(self, values: Tensor) -> Tensor:
        """A value per word → its sum over the words of each example."""
        return values.new_zeros(len(self.counts)).index_add(0, self.examples, values)

    def mean(self, values: Tensor) -> Tensor:
        """A value per word → its mean over the words of each example."""
        return self.sum(values) / self.counts


@dataclass(frozen=True)
class Group:
    """Neighbouring sequences of one length, of each of which the same number of states is kept."""

    count: int
    length: int
    kept_length: int


@dataclass(frozen=True)
class PackedTokens:
    """Sequences laid end to end, shortest first, so that those of equal length lie side by side.

    `starts` and `kept_starts` are in the order of the sequences that were packed.
    """

    ids: Tensor  # [tokens]
    positions: Tensor  # [tokens]
    segments: Tensor  # [tokens]
    groups: tuple[Group, ...]
    starts: Tensor  # [sequences] row of each sequence's first token
    lengths: Tensor  # [sequences]
    kept_rows: Tensor | None  # [kept rows] rows of which the last layer's states are wanted; None: all of them
    kept_starts: Tensor  # [sequences] where each sequence's kept states start in the encoder's output
    kept_lengths: Tensor  # [sequences]
    states: Tensor | None = None  # [tokens, width] after the first layers, where those were kept
    layer: int = 0  # how many layers that were

    def __len__(self) -> int:
        return len(self.ids)


def pack(sequences: Iterable[Sequence], device: torch.device | str = "cpu") -> PackedTokens:
    """Lay sequences end to end. No padding is made; nothing downstream of here ever sees any."""
    import torch

    sequences = list(sequences)
    if sequences[0].states is not None and not len(sequences[0].ids):
        return _pack_states(sequences, device)
    lengths = np.array([len(sequence.ids) for sequence in sequences])
    all_needed = np.array([sequence.positions_needed == "all" for sequence in sequences])
    kept_lengths = np.where(all_needed, lengths, 1)
    order = np.lexsort((kept_lengths, lengths))
    ordered = [sequences[index] for index in order]
    starts = np.empty(len(sequences), dtype=np.int64)
    kept_starts = np.empty(len(sequences), dtype=np.int64)
    starts[order] = _starts(lengths[order])
    kept_starts[order] = _starts(kept_lengths[order])
    ids = np.concatenate([sequence.ids for sequence in ordered]).astype(np.int64)
    segments = np.concatenate([sequence.segments for sequence in ordered]).astype(np.int64)
    positions = np.arange(len(ids)) - np.repeat(starts[order], lengths[order])
    kept_rows = None
    if (kept_lengths < lengths).any():
        kept_rows = torch.from_numpy(_kept_rows(ordered, starts[order])).to(device)
    return PackedTokens(
        ids=torch.from_numpy(ids).to(device),
        positions=torch.from_numpy(positions).to(device),
        segments=torch.from_numpy(segments).to(device),
        groups=_groups(lengths, kept_lengths),
        starts=torch.from_numpy(starts).to(device),
        lengths=torch.from_numpy(lengths).to(device),
        kept_rows=kept_rows,
        kept_starts=torch.from_numpy(kept_starts).to(device),
        kept_lengths=torch.from_numpy(kept_lengths).to(device),
        states=_concatenate_states(ordered, device),
        layer=sequences[0].layer,
    )


def _kept_rows(ordered: list[Sequence], starts: np.ndarray) -> np.ndarray:
    """The rows whose states are wanted, of sequences that lie end to end."""
    rows = []
    for sequence, start in zip(ordered, starts, strict=True):
        end = start + len(sequence.ids)
        if sequence.positions_needed == "first":
            end = start + 1
        elif sequence.positions_needed == "last":
            start = end - 1
        rows.append(np.arange(start, end))
    return np.concatenate(rows)


def _groups(lengths: np.ndarray, kept_lengths: np.ndarray) -> tuple[Group, ...]:
    shapes, counts = np.unique(np.stack([lengths, kept_lengths], axis=1), axis=0, return_counts=True)
    groups = []
    for (length, kept_length), count in zip(shapes.tolist(), counts.tolist(), strict=True):
        groups.append(Group(count, length, kept_length))
    return tuple(groups)


def _pack_states(sequences: list[Sequence], device: torch.device | str) -> PackedTokens:
    """Kept states that heads read as they are: there is nothing left for the encoder to do."""
    import torch

    counts = np.array([0 if sequence.states is None else len(sequence.states) for sequence in sequences])
    no_tokens = torch.empty(0, dtype=torch.long, device=device)
    starts = torch.from_numpy(_starts(counts)).to(device)
    lengths = torch.from_numpy(counts).to(device)
    return PackedTokens(
        ids=no_tokens,
        positions=no_tokens,
        segments=no_tokens,
        groups=(),
        starts=starts,
        lengths=lengths,
        kept_rows=None,
        kept_starts=starts,
        kept_lengths=lengths,
        states=_concatenate_states(sequences, device),
        layer=sequences[0].layer,
    )


def _concatenate_states(sequences: list[Sequence], device: torch.device | str) -> Tensor | None:
    import torch

    states = [sequence.states for sequence in sequences if sequence.states is not None]
    if not states:
        return None
    return torch.from_numpy(np.concatenate(states)).to(device)


def _starts(lengths: np.ndarray) -> np.ndarray:
    return np.cumsum(lengths) - lengths
