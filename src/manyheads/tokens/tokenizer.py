"""The encoder's tokenizer, and the special tokens around one or two sentences."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tokenizers

from manyheads.errors import UserError


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
        return [found.ids for found in self.backend.encode_batch_fast(texts, add_special_tokens=False)]


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
