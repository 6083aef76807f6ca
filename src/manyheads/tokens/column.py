"""A column of texts as tokens: tokenised once, then read from a memory-mapped file.

The file is named by a fingerprint of texts and tokenizer. Special tokens are added when a batch is made, so every
encoding and every truncation reads the same file.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manyheads.errors import UserError
from manyheads.storage.files import atomic_directory, cache_folder, mapped
from manyheads.storage.strings import Strings
from manyheads.tokens.tokenizer import Tokenizer

TEXTS_PER_CALL = 10_000


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
    with atomic_directory(folder) as aside:
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
