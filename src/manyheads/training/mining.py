"""Mining: between epochs, the wrong answers that the encoder as it is takes for the right ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from manyheads.inference.search import embed_search_texts
from manyheads.model.multitask import ManyHeads
from manyheads.model.search_texts import SearchTexts
from manyheads.model.task_tokens import TaskTokens
from manyheads.storage.ragged import Ragged

QUERIES_AT_ONCE = 512


class Mining:
    """The mined wrong answers of every task that asks for some, beside those of its files. Checkpoints hold them."""

    def __init__(self, model: ManyHeads, train: dict[str, TaskTokens], tokens_per_pass: int) -> None:
        self.model, self.train, self.tokens_per_pass = model, train, tokens_per_pass
        self.of_files: dict[str, SearchTexts] = {}
        for name, data in train.items():
            if data.search is not None and model.head(name).loss.mined:
                self.of_files[name] = data.search
        self.mined: dict[str, Ragged] = {}

    def mine(self) -> dict[str, int]:
        """Mine anew, in place of what was mined before; returns how many wrong answers each task now has more."""
        counts: dict[str, int] = {}
        for name, search in self.of_files.items():
            vectors = embed_search_texts(self.model, name, search.tokens, self.tokens_per_pass)
            loss = self.model.head(name).loss
            self._use(name, hard_negatives(vectors, search, loss.mined, loss.mined_below))
            counts[name] = len(self.mined[name].values)
        return counts

    def _use(self, task: str, mined: Ragged) -> None:
        search = self.of_files[task]
        rows = [np.concatenate(pair) for pair in zip(search.negatives, mined, strict=True)]
        self.mined[task] = mined
        self.train[task].search = replace(search, negatives=Ragged.from_rows(rows, np.int64))

    def state_dict(self) -> dict[str, Tensor]:
        """'TASK|values' and 'TASK|starts' → numbers."""
        tensors: dict[str, Tensor] = {}
        for name, mined in self.mined.items():
            tensors[f"{name}|values"] = torch.from_numpy(mined.values)
            tensors[f"{name}|starts"] = torch.from_numpy(mined.starts)
        return tensors

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        for name in self.of_files:
            if f"{name}|values" in tensors:
                self._use(name, Ragged(tensors[f"{name}|values"].numpy(), tensors[f"{name}|starts"].numpy()))


def hard_negatives(vectors: np.ndarray, search: SearchTexts, count: int, below: float) -> Ragged:
    """[rows] of each row at most `count` answers of other rows, those with the largest cosine first.

    Left out are answers that are right for an equal query, the query itself, the row's own wrong answers, and those
    with a cosine of more than `below` times the right answer's: they are often right, and only nobody has said so.
    """
    corpus = search.corpus
    column_of = np.full(len(vectors), -1)
    column_of[corpus] = np.arange(len(corpus))
    right: dict[int, set[int]] = {}
    for query, answer in zip(search.queries.tolist(), search.answers.tolist(), strict=True):
        right.setdefault(query, set()).add(answer)
    rows: list[np.ndarray] = []
    for first in range(0, len(search.queries), QUERIES_AT_ONCE):
        queries = search.queries[first : first + QUERIES_AT_ONCE]
        cosines = vectors[queries] @ vectors[corpus].T
        for row, (query, scores) in enumerate(zip(queries.tolist(), cosines, strict=True), first):
            most = below * scores[column_of[search.answers[row]]]
            known = [*right[query], *search.negatives[row].tolist(), query]
            left_out = column_of[known]
            scores[left_out[left_out >= 0]] = -np.inf
            scores[scores > most] = -np.inf
            hardest = np.argsort(-scores, kind="stable")[:count]
            rows.append(corpus[hardest[np.isfinite(scores[hardest])]])
    return Ragged.from_rows(rows, np.int64)
