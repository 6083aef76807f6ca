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
                raise UserError(
                    f"{folder}: no tokenizer can be loaded from here: {error}", code="no-tokenizer"
                ) from None
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
        """As the tokenizer itself frames a pair."""
        encoding = backend.encode("a", "a")
        sentences = np.array([-1 if number is None else number for number in encoding.sequence_ids])
        ids = np.array(encoding.ids, dtype=np.int64)
        first, second = np.flatnonzero(sentences == 0), np.flatnonzero(sentences == 1)
        return cls(
            start=ids[: first[0]],
            middle=ids[first[-1] + 1 : second[0]],
            end=ids[second[-1] + 1 :],
            segment_b=int(encoding.type_ids[second[0]]),
        )

    @property
    def around_single(self) -> int:
        """How many special tokens a single sentence gets, or a pair without separator."""
        return len(self.start) + len(self.end)

    @property
    def around_pair(self) -> int:
        return self.around_single + len(self.middle)

    def single(self, ids: np.ndarray, max_length: int) -> tuple[np.ndarray, np.ndarray]:
        """Token ids and segment ids of [CLS] sentence [SEP], the sentence cut at its end to fit."""
        framed = np.concatenate([self.start, ids[: max_length - self.around_single], self.end])
        return framed, np.zeros_like(framed)

    def special_tokens_of_pair(self, separator: bool, each: bool) -> int:
        """How many special tokens a pair gets, framed as `pair` says."""
        around = self.around_pair if separator else self.around_single
        return around + self.around_single if each else around

    def pair(
        self,
        first: np.ndarray,
        second: np.ndarray,
        max_length: int,
        separator: bool = True,
        segments: bool = True,
        each: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Token ids and segment ids of [CLS] first [SEP] second [SEP], the longer sentence cut first to fit.

        Without `separator` nothing stands between the sentences; without `segments` all segment ids are 0. With `each`
        both sentences are framed first: [CLS] first [SEP], the separator or nothing, [CLS] second [SEP].
        """
        room = max_length - self.special_tokens_of_pair(separator, each)
        first_length, second_length = truncate_pair(len(first), len(second), room)
        left = [self.start, first[:first_length]]
        right = [second[:second_length], self.end]
        if each:
            left.append(self.end)
            right.insert(0, self.start)
        if separator:
            left.append(self.middle)
        framed = np.concatenate(left + right)
        segment_ids = np.zeros_like(framed)
        if segments:
            segment_ids[sum(map(len, left)) :] = self.segment_b
        return framed, segment_ids


def truncate_pair(first: int, second: int, room: int) -> tuple[int, int]:
    """Lengths that fit into `room`, taking from the longer sentence first; of equal ones the first loses one more."""
    if first + second <= room:
        return first, second
    short = min(first, second, room // 2)
    if first <= second:
        return short, room - short
    return room - short, short
