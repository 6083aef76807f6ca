"""Text → tokens, once; tokens → packed batches, with no padding.

A column of texts is tokenised sentence by sentence without special tokens and kept in a memory-mapped file named by
a fingerprint of texts and tokenizer. Encodings add special tokens when a batch is made, so that every encoding and
every truncation reads the same file.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tokenizers
import torch
from torch import Tensor

from manyheads.errors import UserError
from manyheads.storage.files import cache_folder, mapped, written_aside
from manyheads.storage.strings import Strings

TEXTS_PER_CALL = 10_000
Keep = Literal["first", "last", "all"]  # which token states of a sequence are wanted of the encoder


class Tokenizer:
    """The encoder's own fast tokenizer, and how it frames one or two sentences with special tokens."""

    def __init__(self, folder: Path) -> None:
        file = folder / "tokenizer.json"
        if file.is_file():
            self.backend = tokenizers.Tokenizer.from_file(str(file))
        else:
            from transformers import AutoTokenizer

            try:
                self.backend = AutoTokenizer.from_pretrained(folder).backend_tokenizer
            except Exception as error:  # transformers raises many kinds for one fault: nothing to load from
                raise UserError(f"{folder}: no tokenizer can be loaded from here: {error}") from None
        # a tokenizer.json may carry the padding and truncation of its last use: all-MiniLM's cuts at 128
        self.backend.no_padding()
        self.backend.no_truncation()
        self.fingerprint = hashlib.sha256(self.backend.to_str().encode()).hexdigest()
        self.frame = Frame.of(self.backend)

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, without special tokens."""
        return [found.ids for found in self.backend.encode_batch_fast(texts, add_special_tokens=False)]


@dataclass(frozen=True)
class Frame:
    """The special tokens around one or two sentences: start a end, or start a middle b end."""

    start: np.ndarray
    middle: np.ndarray
    end: np.ndarray
    segment_b: int  # segment id of the second sentence and what follows it

    @classmethod
    def of(cls, backend: tokenizers.Tokenizer) -> Frame:
        found = backend.encode("a", "a")
        sentence = np.array([-1 if one is None else one for one in found.sequence_ids])
        ids = np.array(found.ids, dtype=np.int64)
        a, b = np.flatnonzero(sentence == 0), np.flatnonzero(sentence == 1)
        return cls(
            start=ids[: a[0]],
            middle=ids[a[-1] + 1 : b[0]],
            end=ids[b[-1] + 1 :],
            segment_b=int(found.type_ids[b[0]]),
        )

    @property
    def around_one(self) -> int:
        return len(self.start) + len(self.end)

    @property
    def around_two(self) -> int:
        return self.around_one + len(self.middle)


# --- a tokenised column ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenColumn:
    """The tokens of a column of texts: all ids end to end, and where each text starts. Memory-mapped."""

    ids: np.ndarray  # [tokens]
    starts: np.ndarray  # [texts + 1]
    fingerprint: str  # of the texts and the tokenizer

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.ids[self.starts[row] : self.starts[row + 1]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def lengths_of(self, rows: np.ndarray) -> np.ndarray:
        """The same of some rows, without looking at all of them."""
        return self.starts[rows + 1] - self.starts[rows]


def tokenise(texts: Strings, tokenizer: Tokenizer) -> TokenColumn:
    """The tokens of a column: read from the cache if these texts met this tokenizer before."""
    folder = cache_folder() / "tokens" / _fingerprint(texts, tokenizer)
    if not folder.is_dir():
        try:
            _tokenise_into(folder, texts, tokenizer)
        except OSError as error:
            raise UserError(
                f"{folder}: the token cache cannot be written ({error}). Set MANYHEADS_CACHE to another folder."
            ) from None
    try:
        meta = json.loads((folder / "meta.json").read_text())
        ids = mapped(folder / "ids.bin", np.int32, meta["tokens"])
        starts = mapped(folder / "starts.bin", np.int64, meta["texts"] + 1)
        return TokenColumn(ids, starts, folder.name)
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: the token cache is damaged ({error}). Delete that folder and run again.") from None


def tokenise_once(texts: Strings, tokenizer: Tokenizer) -> TokenColumn:
    """The tokens of a few texts that will not be seen again: nothing is written."""
    found = tokenizer.encode(texts.to_pylist())
    starts = np.cumsum([0, *map(len, found)])
    return TokenColumn(np.array([one for ids in found for one in ids], dtype=np.int32), starts, "")


def _fingerprint(texts: Strings, tokenizer: Tokenizer) -> str:
    return texts.remember(f"tokens of {tokenizer.fingerprint}", lambda: _digest(texts, tokenizer))


def _digest(texts: Strings, tokenizer: Tokenizer) -> str:
    """Of the tokenizer and of every text after its length in four bytes, which Arrow lays side by side in one go."""
    digest = hashlib.sha256(tokenizer.fingerprint.encode())
    for part in texts.parts(TEXTS_PER_CALL):
        lengths = pc.binary_length(part).to_numpy().astype("<u4")
        before = pa.Array.from_buffers(pa.binary(4), len(part), [None, pa.py_buffer(lengths)])
        parts = (before.cast(pa.large_binary()), part.cast(pa.large_binary()), pa.scalar(b"", pa.large_binary()))
        joined = pc.binary_join_element_wise(*parts).buffers()[2]
        digest.update(joined.slice(0, int(lengths.sum(dtype=np.int64)) + lengths.nbytes))
    return digest.hexdigest()[:32]


def _tokenise_into(folder: Path, texts: Strings, tokenizer: Tokenizer) -> None:
    starts = np.zeros(len(texts) + 1, dtype=np.int64)
    done = 0
    with written_aside(folder) as aside:
        with (aside / "ids.bin").open("wb") as file:
            for found in _encode_ahead(texts, tokenizer):
                lengths = [len(ids) for ids in found]
                starts[done + 1 : done + 1 + len(found)] = lengths
                np.fromiter(chain.from_iterable(found), dtype=np.int32, count=sum(lengths)).tofile(file)
                done += len(found)
        np.cumsum(starts, out=starts)
        starts.tofile(aside / "starts.bin")
        (aside / "meta.json").write_text(json.dumps({"texts": len(texts), "tokens": int(starts[-1])}))


def _encode_ahead(texts: Strings, tokenizer: Tokenizer) -> Iterator[list[list[int]]]:
    """Two calls under way: the tokenizer, which uses all cores and not Python's lock, need not wait for Python."""
    with ThreadPoolExecutor(2) as threads:
        waiting: deque[Future[list[list[int]]]] = deque()
        for part in texts.parts(TEXTS_PER_CALL):
            waiting.append(threads.submit(tokenizer.encode, part.to_pylist()))
            if len(waiting) > 1:
                yield waiting.popleft().result()
        for one in waiting:
            yield one.result()


# --- sequences and packed batches ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sequence:
    """One encoder input: ids with special tokens, a segment id per token, and which states are wanted."""

    ids: np.ndarray
    segments: np.ndarray
    keep: Keep = "all"
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
        place = found.setdefault((one.ids.tobytes(), one.segments.tobytes(), source), len(distinct))
        if place == len(distinct):
            distinct.append(one)
        elif distinct[place].keep != one.keep:
            distinct[place] = replace(distinct[place], keep="all")
        places.append(place)
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
    kept_lengths = np.array([length if one.keep == "all" else 1 for one, length in zip(given, lengths, strict=True)])
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
            if given[i].keep == "all"
            else np.array([starts[i] + (lengths[i] - 1 if given[i].keep == "last" else 0)])
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
