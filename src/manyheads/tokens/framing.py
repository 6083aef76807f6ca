"""Which texts an encoder input holds and the special tokens around them, as data: no encoder is needed to read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from manyheads.tokens.tokenizer import SpecialTokens

Ids = np.ndarray  # token ids of one sentence, without special tokens


@dataclass(frozen=True)
class SingleFrame:
    """[CLS] text [SEP]"""

    side: int = 0  # which of the example's texts

    def apply(self, texts: Sequence[Ids], special_tokens: SpecialTokens, max_length: int) -> tuple[Ids, Ids]:
        """(ids, segments)"""
        return special_tokens.single(texts[self.side], max_length)

    def untruncated_length(self, lengths: Sequence[np.ndarray], special_tokens: SpecialTokens) -> np.ndarray:
        return lengths[self.side] + special_tokens.around_single


@dataclass(frozen=True)
class PairFrame:
    """[CLS] first [SEP] second [SEP]; the options are those of `SpecialTokens.pair`."""

    separator: bool = True
    segments: bool = True
    each: bool = False

    def apply(self, texts: Sequence[Ids], special_tokens: SpecialTokens, max_length: int) -> tuple[Ids, Ids]:
        """(ids, segments)"""
        return special_tokens.pair(texts[0], texts[1], max_length, self.separator, self.segments, self.each)

    def untruncated_length(self, lengths: Sequence[np.ndarray], special_tokens: SpecialTokens) -> np.ndarray:
        return lengths[0] + lengths[1] + special_tokens.special_tokens_of_pair(self.separator, self.each)


Frame = SingleFrame | PairFrame


def frame_to_json(frame: Frame) -> dict[str, Any]:
    holds = "pair" if isinstance(frame, PairFrame) else "single"
    return {"holds": holds, **asdict(frame)}


def frame_from_json(saved: dict[str, Any]) -> Frame:
    """What `frame_to_json` wrote; a ValueError or TypeError says what does not fit."""
    options = {key: value for key, value in saved.items() if key != "holds"}
    if saved.get("holds") == "pair":
        return PairFrame(**options)
    if saved.get("holds") == "single":
        return SingleFrame(**options)
    raise ValueError(f"an input holds a 'single' text or a 'pair', found {saved.get('holds')!r}")
