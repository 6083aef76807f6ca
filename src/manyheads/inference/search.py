"""Where a query's right answers stand among all texts of a corpus."""

from __future__ import annotations

import numpy as np
import torch

from manyheads.model.multitask import ManyHeads, evaluating
from manyheads.model.search_texts import SearchTexts
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.losses.vectors import unit
from manyheads.tokens.budget import split_by_tokens
from manyheads.tokens.column import TokenColumn

QUERIES_AT_ONCE = 512


@torch.no_grad()
def embed_search_texts(model: ManyHeads, task: str, texts: TokenColumn, tokens_per_pass: int) -> np.ndarray:
    """[texts, width] float32: the vectors of length 1 that a search compares, in the order of the texts."""
    vectors: np.ndarray | None = None
    shortest_first = np.argsort(texts.lengths, kind="stable").tolist()
    special_tokens = model.tokenizer.special_tokens.around_single

    def tokens(number: int) -> int:
        return min(int(texts.starts[number + 1] - texts.starts[number]) + special_tokens, model.max_length)

    with evaluating(model):
        for numbers in split_by_tokens(shortest_first, tokens, tokens_per_pass):
            inputs = [model.inputs(task, (texts, texts), number)[:1] for number in numbers]
            outputs = unit(model([(task, inputs)])[0].float()).cpu().numpy()
            if vectors is None:
                vectors = np.empty((len(texts), outputs.shape[1]), dtype=np.float32)
            vectors[numbers] = outputs
    assert vectors is not None
    return vectors


def rank_answers(
    model: ManyHeads, data: TaskTokens, search: SearchTexts, rows: np.ndarray, tokens_per_pass: int
) -> np.ndarray:
    """[rows, 5] as parts/metrics/ranks.py reads them: of each row's query and right answer among all answers, right and
    wrong ones, of all rows of the data."""
    vectors = embed_search_texts(model, data.task.name, search.tokens, tokens_per_pass)
    return ranks_of(vectors, search, rows)


def ranks_of(vectors: np.ndarray, search: SearchTexts, rows: np.ndarray) -> np.ndarray:
    """The same of vectors [texts, width] that are known. A query's own text is no answer, unless a row says so; of
    equal cosines that of the text which comes first in the data ranks first."""
    corpus = search.corpus
    column_of = np.full(len(vectors), -1)
    column_of[corpus] = np.arange(len(corpus))
    answers_of: dict[int, dict[int, int]] = {}  # query → right answer → in how many rows
    for query, answer in zip(search.queries.tolist(), search.answers.tolist(), strict=True):
        times = answers_of.setdefault(query, {})
        times[answer] = times.get(answer, 0) + 1
    queries = np.unique(search.queries[rows])
    ranks: dict[int, dict[int, tuple[float, int]]] = {}  # query → right answer → (cosine, rank)
    for first in range(0, len(queries), QUERIES_AT_ONCE):
        some = queries[first : first + QUERIES_AT_ONCE]
        cosines = vectors[some] @ vectors[corpus].T
        for query, row in zip(some.tolist(), cosines, strict=True):
            if query not in answers_of[query] and column_of[query] >= 0:
                row[column_of[query]] = -np.inf
            ranks[query] = {}
            for answer in answers_of[query]:
                column = int(column_of[answer])
                before = np.count_nonzero(row > row[column]) + np.count_nonzero(row[:column] == row[column])
                ranks[query][answer] = (float(row[column]), int(before) + 1)
    predictions = np.empty((len(rows), 5))
    for position, data_row in enumerate(rows.tolist()):
        query, answer = int(search.queries[data_row]), int(search.answers[data_row])
        cosine, rank = ranks[query][answer]
        best = min(other for _, other in ranks[query].values())
        right = len(answers_of[query])
        predictions[position] = (cosine, rank, best, right, 1 / (right * answers_of[query][answer]))
    return predictions
