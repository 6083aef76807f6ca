"""Metrics of searches beside definitions that sort every query's answers, and beside scikit-learn's nDCG."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from building import SEARCH, a_task
from manyheads.config.part import PartConfig
from manyheads.inference.search import ranks_of
from manyheads.model.search_texts import SearchTexts
from manyheads.parts.metrics import overall, score, why_incompatible
from manyheads.storage.ragged import Ragged
from manyheads.tokens.column import TokenColumn

pytestmark = pytest.mark.numeric
NO_TOKENS = TokenColumn(np.empty(0, dtype=np.int32), np.zeros(1, dtype=np.int64), "")


def search_of(queries: list[int], answers: list[int], negatives: list[list[int]]) -> SearchTexts:
    rows = Ragged.from_rows(negatives, np.int64)
    return SearchTexts(NO_TOKENS, np.array(queries), np.array(answers), rows)


def measure(predictions: np.ndarray, **options: dict[str, Any]) -> dict[str, float | None]:
    """mrr, recall and nDCG by name."""
    metrics = tuple(
        PartConfig(name=name, options=options.get(name, {})) for name in ("mrr", "recall-at-k", "ndcg-at-k")
    )
    task = a_task(labels=SEARCH, metrics=metrics)
    values = score(task, predictions, Ragged.from_rows([[1.0]] * len(predictions), np.float64))
    return dict(zip(("mrr", "recall-at-k", "ndcg-at-k"), values.values(), strict=True))


@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(1, 14), st.integers(1, 6), st.booleans())
@settings(max_examples=150, deadline=None)
def test_figures_are_those_of_sorted_answers(seed: int, texts: int, rows: int, k: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-1, 2, (texts, 2)).astype(np.float32) if ties else rng.normal(size=(texts, 3)).astype("f4")
    queries, answers = rng.integers(texts, size=rows), rng.integers(texts, size=rows)
    negatives = [rng.integers(texts, size=rng.integers(3)).tolist() for _ in range(rows)]
    search = search_of(queries.tolist(), answers.tolist(), negatives)
    found = measure(ranks_of(vectors, search, np.arange(rows)), **{"recall-at-k": {"k": k}, "ndcg-at-k": {"k": k}})

    corpus = sorted({*answers.tolist(), *(number for row in negatives for number in row)})
    reciprocal, recall, ndcg, sk_ndcg = [], [], [], []
    for query in sorted(set(queries.tolist())):
        right = {answer for q, answer in zip(queries.tolist(), answers.tolist(), strict=True) if q == query}
        candidates = [text for text in corpus if text != query or text in right]
        scores = [float(np.sum(vectors[query] * vectors[text], dtype=np.float32)) for text in candidates]
        if not ties:  # the same numbers as the search multiplies
            scores = (vectors[query] @ vectors[candidates].T).tolist()
        ordered = [
            text for _, text in sorted(zip(scores, candidates, strict=True), key=lambda pair: (-pair[0], pair[1]))
        ]
        gains = [1.0 if text in right else 0.0 for text in ordered]
        discounts = [1 / np.log2(place + 2) for place in range(len(gains))]
        reciprocal.append(1 / (gains.index(1.0) + 1))
        recall.append(sum(gains[:k]) / len(right))
        gained = sum(gain * discount for gain, discount in zip(gains[:k], discounts, strict=False))
        ndcg.append(gained / sum(discounts[: min(k, len(right))]))
        if len(candidates) > 1:
            truth = [[float(text in right) for text in candidates]]
            sk_ndcg.append(ndcg_score(truth, [scores], k=k, ignore_ties=True))
    assert found["mrr"] == pytest.approx(np.mean(reciprocal))
    assert found["recall-at-k"] == pytest.approx(np.mean(recall))
    assert found["ndcg-at-k"] == pytest.approx(np.mean(ndcg))
    if not ties and len(sk_ndcg) == len(ndcg):
        assert found["ndcg-at-k"] == pytest.approx(np.mean(sk_ndcg))


def test_a_query_with_two_answers_by_hand() -> None:
    """Cosines with query 0: text 1 .9, text 2 .8, text 3 .6; right are 1 and 3. Query 4 finds its answer second."""
    vectors = np.array([[1, 0], [0.9, 0.1], [0.8, 0.6], [0.6, 0.8], [0.8, 0.7]], dtype=np.float32)
    predictions = ranks_of(vectors, search_of([0, 0, 4], [1, 3, 3], [[2], [], []]), np.arange(3))
    assert predictions[:, 1:].tolist() == [[1, 1, 2, 0.5], [3, 1, 2, 0.5], [2, 2, 1, 1.0]]
    found = measure(predictions, **{"recall-at-k": {"k": 2}, "ndcg-at-k": {"k": 3}})
    assert found["mrr"] == pytest.approx((1 + 1 / 2) / 2)
    assert found["recall-at-k"] == pytest.approx((1 / 2 + 1) / 2)
    assert found["ndcg-at-k"] == pytest.approx(((1 + 1 / 2) / (1 + 1 / np.log2(3)) + 1 / np.log2(3)) / 2)


def test_the_own_text_of_a_query_is_no_answer_unless_a_row_says_so() -> None:
    vectors = np.array([[1, 0], [0.9, 0.1]], dtype=np.float32)
    assert ranks_of(vectors, search_of([0], [1], [[0]]), np.arange(1))[0, 1] == 1
    assert ranks_of(vectors, search_of([0, 0], [1, 0], [[], []]), np.arange(2))[:, 1].tolist() == [2, 1]


def test_the_same_row_twice_counts_its_query_once() -> None:
    vectors = np.array([[1, 0], [0.9, 0.1], [0, 1], [1, 0.1]], dtype=np.float32)
    once = measure(ranks_of(vectors, search_of([0, 2], [1, 3], [[3], []]), np.arange(2)))
    twice = measure(ranks_of(vectors, search_of([0, 2, 2], [1, 3, 3], [[3], [], []]), np.arange(3)))
    assert once == pytest.approx(twice)


def test_a_part_of_the_rows_is_searched_among_all_answers() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(20, 4)).astype(np.float32)
    search = search_of(list(range(10)), list(range(10, 20)), [[]] * 10)
    every = ranks_of(vectors, search, np.arange(10))
    part = ranks_of(vectors, search, np.array([7, 2]))
    assert np.allclose(part, every[[7, 2]])


def test_promises_of_every_metric() -> None:
    best = np.array([[0.9, 1, 1, 1, 1.0]] * 3)
    assert set(measure(best).values()) == {1.0}
    assert set(measure(np.empty((0, 5))).values()) == {None}
    task = a_task(labels=SEARCH, metrics=(PartConfig(name="mrr"),))
    assert overall({"task": {"mrr": 0.25}}, {"task": task}) == 0.25
    for name in ("mrr", "recall-at-k", "ndcg-at-k"):
        needs = "candidates or texts that match" if name == "mrr" else "texts that match"
        assert why_incompatible(name, a_task()) == f"'{name}' needs {needs}, this task is a classification."
