"""The encoder's tokenizer, and the special tokens around one or two sentences."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tokenizers

from manyheads.errors import UserError

Spans = list[tuple[int, int]]  # (start, end) of each token of a text


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
        self.special_tokens = SpecialTokens.of(self.backend)

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, without special tokens."""
        return [encoding.ids for encoding in self.backend.encode_batch_fast(texts, add_special_tokens=False)]

    def encode_with_offsets(self, texts: list[str]) -> tuple[list[list[int]], list[Spans]]:
        """The same ids, and where each token begins and ends in its text, in characters. Takes longer."""
        encodings = self.backend.encode_batch(texts, add_special_tokens=False)
        ids = [encoding.ids for encoding in encodings]
        spans = [_without_space(encoding.offsets, text) for encoding, text in zip(encodings, texts, strict=True)]
        return ids, spans


def _without_space(spans: Spans, text: str) -> Spans:
    """Some tokenizers count the space before a word as part of its first token."""
    trimmed: Spans = []
    for start, end in spans:
        while start < end and text[start].isspace():
            start += 1
        trimmed.append((start, end))
    return trimmed


@dataclass(frozen=True)
class SpecialTokens:
    """The special tokens around one or two sentences: start a end, or start a middle b end."""

    start: np.ndarray
    middle: np.ndarray
    end: np.ndarray
    segment_b: int  # segment id of the second sentence and what follows it

    @classmethod
    def of(cls, backend: tokenizers.Tokenizer) -> SpecialTokens:
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
    def around_single(self) -> int:
        return len(self.start) + len(self.end)

    @property
    def around_pair(self) -> int:
        return self.around_single + len(self.middle)
