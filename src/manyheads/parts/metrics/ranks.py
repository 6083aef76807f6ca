"""Metrics of searches: where the right answers stand among all, best first.

`predicted` [examples, 5] has of each pair of a query and a right answer: the cosine, the answer's rank r (1 is best),
the best rank b of the query's right answers, their number R, and the weight w of the pair, by which each query counts
once. Every metric is a mean over pairs by w, so that a part of the pairs can be measured, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.parts.metrics.base import MATCH, metric
from manyheads.registry import Count

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

SIMILARITY, RANK, BEST_RANK, RIGHT_ANSWERS, WEIGHT = range(5)


@metric("mrr", label_types=MATCH, best="high", scale="share")
def mean_reciprocal_rank(predicted: np.ndarray, labels: Any, task: Task, *, k: Count | None = None) -> float:
    """Mean over queries of 1/b for the rank b of the first right answer, 0 where b > k."""
    best = predicted[:, BEST_RANK]
    return _mean(1 / best * (best <= (k or np.inf)), predicted)


@metric("recall-at-k", label_types=MATCH, best="high", scale="share")
def recall_at_k(predicted: np.ndarray, labels: Any, task: Task, *, k: Count = 10) -> float:
    """Mean over queries of the share of their right answers among the first k."""
    return _mean(predicted[:, RANK] <= k, predicted)


@metric("ndcg-at-k", label_types=MATCH, best="high", scale="share")
def ndcg_at_k(predicted: np.ndarray, labels: Any, task: Task, *, k: Count = 10) -> float:
    """Mean over queries of Σ_{r ≤ k} 1/log₂(1 + r) over right answers, divided by its largest value."""
    ranks, right_answers = predicted[:, RANK], predicted[:, RIGHT_ANSWERS]
    gains = np.where(ranks <= k, 1 / np.log2(1 + ranks), 0.0)
    discounts = np.cumsum(1 / np.log2(np.arange(k) + 2))
    largest = discounts[np.minimum(right_answers, k).astype(int) - 1]
    return _mean(gains * right_answers / largest, predicted)


def _mean(values: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.average(values, weights=predicted[:, WEIGHT]))
