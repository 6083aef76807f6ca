"""The candidates of rows as tokens: any number per row, all end to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from manyheads.data.choices import split_candidates
from manyheads.storage.ragged import starts_of
from manyheads.storage.strings import Strings
from manyheads.tokens.column import TokenColumn


@dataclass(frozen=True)
class Candidates:
    """The tokens of each candidate; where the question stands beside a context, with the question before it."""

    tokens: TokenColumn  # [candidates]
    starts: np.ndarray  # [rows + 1] the first candidate of each row

    @classmethod
    def of(cls, texts: Strings, tokenise: Callable[[Strings], TokenColumn]) -> Candidates:
        """Of the texts that hold all candidates of a row."""
        flat: list[str] = []
        counts: list[int] = []
        for text in texts.to_pylist():
            question, candidates = split_candidates(text)
            flat += [f"{question} {candidate}".lstrip() for candidate in candidates]
            counts.append(len(candidates))
        return cls(tokenise(Strings.of(flat)), starts_of(np.array(counts, dtype=np.int64)))

    @property
    def counts(self) -> np.ndarray:
        """[rows] how many candidates each has."""
        return np.diff(self.starts)

    @property
    def rows(self) -> TokenColumn:
        """[rows] the tokens of all candidates of a row end to end, for whoever counts or compares."""
        return TokenColumn(self.tokens.ids, self.tokens.starts[self.starts], self.tokens.fingerprint)

    def of_row(self, row: int) -> list[np.ndarray]:
        return [self.tokens[number] for number in range(self.starts[row], self.starts[row + 1])]

    def longest(self) -> np.ndarray:
        """[rows] tokens of the longest candidate."""
        if not len(self.counts):
            return np.zeros(0, dtype=np.int64)
        longest: np.ndarray = np.maximum.reduceat(self.tokens.lengths, self.starts[:-1])
        return longest

    def are_right(self, labels: np.ndarray, rows: np.ndarray) -> Tensor:
        """[candidates of these rows] whether each is the right one."""
        counts = self.counts[rows]
        right = np.zeros(int(counts.sum()), dtype=np.int64)
        right[starts_of(counts)[:-1] + labels[rows]] = 1
        return torch.from_numpy(right)
