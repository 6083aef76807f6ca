"""The distinct texts of a search: what is compared with what."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyheads.data.dataset import Dataset
from manyheads.data.text_lists import split_texts
from manyheads.storage.ragged import Ragged
from manyheads.storage.strings import Strings
from manyheads.tokens.column import TokenColumn, tokenise, tokenise_once
from manyheads.tokens.tokenizer import Tokenizer


@dataclass(frozen=True)
class SearchTexts:
    """Every text once, by number, and the numbers of each row's texts."""

    tokens: TokenColumn  # of all texts
    queries: np.ndarray  # [rows]
    answers: np.ndarray  # [rows] the right ones
    negatives: Ragged  # [rows] the wrong ones, as the file has them

    @classmethod
    def of(cls, examples: Dataset, tokenizer: Tokenizer, cached: bool = True) -> SearchTexts:
        numbers: dict[str, int] = {}

        def number(text: str) -> int:
            return numbers.setdefault(text, len(numbers))

        queries, answers = (np.array(list(map(number, column)), dtype=np.int64) for column in examples.texts)
        rows: list[list[int]] = [[] for _ in range(len(examples))]
        if examples.negatives is not None:
            rows = [list(map(number, split_texts(joined))) for joined in examples.negatives]
        to_tokens = tokenise if cached else tokenise_once
        tokens = to_tokens(Strings.of(list(numbers)), tokenizer)
        return cls(tokens, queries, answers, Ragged.from_rows(rows, np.int64))

    @property
    def corpus(self) -> np.ndarray:
        """The numbers of all answers, right and wrong, rising: what queries are searched in."""
        return np.unique(np.concatenate([self.answers, self.negatives.values]))

    def of_rows(self, rows: list[int]) -> np.ndarray:
        """The numbers of the texts of some rows, row after row: query, right answer, wrong answers."""
        numbers: list[np.ndarray] = []
        for row in rows:
            numbers += [self.queries[row : row + 1], self.answers[row : row + 1], self.negatives[row]]
        return np.concatenate(numbers)
