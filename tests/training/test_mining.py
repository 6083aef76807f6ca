"""Which answers are mined: by an independent sort, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.model.search_texts import SearchTexts
from manyheads.storage.ragged import Ragged
from manyheads.tokens.column import TokenColumn
from manyheads.training.mining import hard_negatives

pytestmark = pytest.mark.numeric
NO_TOKENS = TokenColumn(np.empty(0, dtype=np.int32), np.zeros(1, dtype=np.int64), "")


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 4), st.sampled_from([0.5, 0.95, 2.0]))
@settings(max_examples=100, deadline=None)
def test_mined_are_the_nearest_that_may_be_wrong(seed: int, rows: int, count: int, below: float) -> None:
    rng = np.random.default_rng(seed)
    vectors = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(10, 3)).astype(np.float32))).numpy()
    queries, answers = rng.integers(10, size=rows), rng.integers(10, size=rows)
    negatives = [rng.integers(10, size=rng.integers(3)).tolist() for _ in range(rows)]
    search = SearchTexts(NO_TOKENS, queries, answers, Ragged.from_rows(negatives, np.int64))
    mined = hard_negatives(vectors, search, count, below)
    corpus = {*answers.tolist(), *(number for row in negatives for number in row)}
    for row in range(rows):
        query = int(queries[row])
        right = {int(answer) for other, answer in zip(queries, answers, strict=True) if other == query}
        most = below * float(vectors[query] @ vectors[answers[row]])
        candidates = []
        for text in corpus - right - set(negatives[row]) - {query}:
            cosine = float(vectors[query] @ vectors[text])
            assert abs(cosine - most) > 1e-7, "no candidate lies on the limit"
            if cosine < most:
                candidates.append((-cosine, text))
        assert mined[row].tolist() == [text for _, text in sorted(candidates)[:count]]


def test_by_hand() -> None:
    """Query 0 → 1 (cosine 1); 2 has .96 and may be right as well, 3 has .8, 4 has .6, 5 is a wrong answer already."""
    vectors = np.array([[1, 0], [1, 0], [0.96, 0.28], [0.8, 0.6], [0.6, 0.8], [0.7, 0.71]], dtype=np.float32)
    negatives = Ragged.from_rows([[5], [], [], []], np.int64)
    search = SearchTexts(NO_TOKENS, np.array([0, 2, 3, 4]), np.array([1, 2, 3, 4]), negatives)
    assert hard_negatives(vectors, search, 2, 0.95)[0].tolist() == [3, 4]
    assert hard_negatives(vectors, search, 1, 0.99)[0].tolist() == [2]
