"""Inputs that are longer than the encoder reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from manyheads.checks.findings import Finding, count_finding
from manyheads.checks.split import Split
from manyheads.config.part import PartConfig
from manyheads.config.recipe import EncoderSettings
from manyheads.data.choices import longest_candidate
from manyheads.encoder.auto import LONGEST, OFFSET_POSITIONS
from manyheads.encoder.loading import is_bert, locate, read_config
from manyheads.errors import UserError
from manyheads.parts.encodings import Encoding
from manyheads.storage.strings import Strings
from manyheads.tokens.column import tokenise
from manyheads.tokens.tokenizer import Tokenizer


@dataclass(frozen=True)
class LengthLimit:
    """What is needed to know how long an input is and may be; no weights."""

    tokenizer: Tokenizer
    longest: int  # in tokens
    hidden_size: int


@dataclass(frozen=True)
class NoEncoder:
    """Lengths cannot be checked."""

    reason: str


def read_limit(settings: EncoderSettings) -> LengthLimit | NoEncoder:
    try:
        folder = locate(settings.name, settings.revision).folder
        config = read_config(folder)
        longest = int(config.get("max_position_embeddings") or LONGEST)
        if settings.implementation != "default" or not is_bert(config):  # as encoder/auto.py does it
            if config.get("model_type") in OFFSET_POSITIONS:
                longest -= (config.get("pad_token_id") or 0) + 1
            longest = min(LONGEST, longest)
        hidden_size = int(config.get("hidden_size") or 1)  # no length depends on it
        return LengthLimit(Tokenizer(folder), min(longest, settings.max_length or longest), hidden_size)
    except UserError as fault:
        return NoEncoder(str(fault).split("\n")[0].rstrip(":"))


def find_truncation(
    split: Split, encoding_config: PartConfig | None, limit: LengthLimit | NoEncoder, choices: bool = False
) -> Iterator[Finding]:
    if isinstance(limit, NoEncoder):
        if split.name == "train":
            message = f"Truncation was not checked: {limit.reason}."
            yield Finding(split.task, split.name, "truncation", "note", 0, 0, message)
        return
    usable_texts = [split.texts[row] for row in split.usable_rows]
    if choices:  # each candidate is read on its own; the longest counts
        usable_texts = [(texts[0], longest_candidate(texts[1])) for texts in usable_texts]
    columns = list(zip(*usable_texts, strict=True))
    encoding = _build_encoding(encoding_config, len(columns), limit.hidden_size)
    if encoding is None:
        return
    tokens = tuple(tokenise(Strings.of(column), limit.tokenizer).lengths for column in columns)
    lengths = encoding.untruncated_length(tokens, limit.tokenizer.special_tokens)
    long_rows = [split.usable_rows[index] for index in np.flatnonzero(lengths > limit.longest)]
    share = (len(long_rows), len(split.usable_rows))
    text = f"inputs of {split.name} {{are}} longer than {limit.longest} tokens and will be cut"
    yield from count_finding(split.task, split.name, "truncation", "warning", share, text, split.quotes(long_rows))


def _build_encoding(config: PartConfig | None, texts: int, hidden_size: int) -> Encoding | None:
    """None where the encoding does not fit the texts: that is the recipe's fault, and found as such."""
    if config is None:
        config = PartConfig(name="single")
        if texts == 2:
            config = PartConfig(name="cross")
    try:
        encoding: Encoding = config.build("encodings", hidden_size)
    except ValueError:
        return None
    if encoding.texts != texts:
        return None
    return encoding
