"""A column of texts as tokens: tokenised once, then read by memory map.

The cache entry is named by a fingerprint of texts and tokenizer. Special tokens are added when a batch is made, so
every encoding and every truncation reads the same entry.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manyheads.storage.cache import EntryWriter, cached
from manyheads.storage.ragged import Ragged
from manyheads.storage.strings import Strings
from manyheads.tokens.tokenizer import Spans, Tokenizer

TEXTS_PER_CALL = 10_000


@dataclass(frozen=True)
class TokenColumn:
    """The tokens of a column of texts: all ids end to end, and where each text starts. Memory-mapped."""

    ids: np.ndarray  # [tokens]
    starts: np.ndarray  # [texts + 1]
    fingerprint: str  # of the texts and the tokenizer
    token_starts: np.ndarray | None = None  # [tokens] where each token begins in its text, in characters …
    token_ends: np.ndarray | None = None  # … and where it ends; None where offsets were not asked for

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

    def offsets_of(self, row: int) -> np.ndarray | None:
        """[tokens, 2] where each token of a text begins and ends, in characters; None without offsets."""
        if self.token_starts is None or self.token_ends is None:
            return None
        tokens = slice(self.starts[row], self.starts[row + 1])
        return np.stack([self.token_starts[tokens], self.token_ends[tokens]], axis=1)


def tokenise(texts: Strings, tokenizer: Tokenizer, offsets: bool = False) -> TokenColumn:
    """The tokens of a column: read from the cache if these texts met this tokenizer before."""
    fingerprint = _fingerprint(texts, tokenizer)
    if offsets:
        entry = cached(
            "tokens", f"{fingerprint}-offsets", lambda writer: _write_tokens_and_offsets(writer, texts, tokenizer)
        )
        ids = entry.ragged("ids")
        spans = entry.column("token_starts"), entry.column("token_ends")
        return TokenColumn(ids.values, ids.starts, fingerprint, *spans)
    ids = cached("tokens", fingerprint, lambda writer: _write_tokens(writer, texts, tokenizer)).ragged("ids")
    return TokenColumn(ids.values, ids.starts, fingerprint)


def tokenise_once(texts: Strings, tokenizer: Tokenizer, offsets: bool = False) -> TokenColumn:
    """The tokens of a few texts that will not come again: nothing is written."""
    if offsets:
        rows, spans = tokenizer.encode_with_offsets(texts.to_pylist())
        ids = Ragged.from_rows(rows, np.int32)
        flat = np.array(list(chain.from_iterable(spans)), dtype=np.int32).reshape(-1, 2)
        return TokenColumn(ids.values, ids.starts, "", flat[:, 0], flat[:, 1])
    return tokenise_texts(texts.to_pylist(), tokenizer)


def tokenise_texts(texts: list[str], tokenizer: Tokenizer) -> TokenColumn:
    """The same of texts that a program has."""
    ids = Ragged.from_rows(tokenizer.encode(texts), np.int32)
    return TokenColumn(ids.values, ids.starts, "")


def first_tokens(column: TokenColumn, spans: Iterable[Spans]) -> Ragged:
    """Of each text, the number of the token with which each of its words begins; `spans` are the words' places.

    A word of which the tokenizer left nothing has the next token, or the number after the last one.
    """
    rows = []
    for row, words in enumerate(spans):
        offsets = column.offsets_of(row)
        assert offsets is not None
        word_starts = np.array([start for start, _ in words], dtype=np.int64)
        rows.append(np.searchsorted(offsets[:, 1], word_starts, side="right"))
    return Ragged.from_rows(rows, np.int64)


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


def _write_tokens(writer: EntryWriter, texts: Strings, tokenizer: Tokenizer) -> None:
    _append_ids(writer, [])
    for ids in _ahead(texts, tokenizer.encode):
        _append_ids(writer, ids)


def _write_tokens_and_offsets(writer: EntryWriter, texts: Strings, tokenizer: Tokenizer) -> None:
    _append_ids(writer, [])
    _append_spans(writer, [])
    for ids, spans in _ahead(texts, tokenizer.encode_with_offsets):
        _append_ids(writer, ids)
        _append_spans(writer, spans)


def _append_ids(writer: EntryWriter, ids: list[list[int]]) -> None:
    lengths = np.array([len(row) for row in ids], dtype=np.int64)
    flat = np.fromiter(chain.from_iterable(ids), dtype=np.int32, count=int(lengths.sum()))
    writer.append_ragged("ids", flat, lengths)


def _append_spans(writer: EntryWriter, spans: list[Spans]) -> None:
    flat = np.array(list(chain.from_iterable(spans)), dtype=np.int32).reshape(-1, 2)
    writer.append("token_starts", flat[:, 0])
    writer.append("token_ends", flat[:, 1])


Encoded = TypeVar("Encoded")


def _ahead(texts: Strings, encode: Callable[[list[str]], Encoded]) -> Iterator[Encoded]:
    """Two calls under way: the tokenizer, which uses all cores and not Python's lock, need not wait for Python."""
    with ThreadPoolExecutor(2) as threads:
        waiting: deque[Future[Encoded]] = deque()
        for part in texts.parts(TEXTS_PER_CALL):
            waiting.append(threads.submit(encode, part.to_pylist()))
            if len(waiting) > 1:
                yield waiting.popleft().result()
        for future in waiting:
            yield future.result()
