"""Metrics of searches and multiple choice: where the right answers stand among all, best first.

Of multiple choice `predicted` is ragged: the probabilities of each row's candidates; `labels` are the numbers of the
right ones. Of searches `predicted` [examples, 5] has of each pair of a query and a right answer: the cosine, the
answer's rank r (1 is best), the best rank b of the query's right answers, their number R, and the weight w of the pair,
by which each query counts once. Every metric is a mean over pairs by w, so that a part of the pairs can be measured,
too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.parts.metrics.base import CANDIDATES, MATCH, metric
from manyheads.registry import Count
from manyheads.storage.ragged import Ragged

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

SIMILARITY, RANK, BEST_RANK, RIGHT_ANSWERS, WEIGHT = range(5)


@metric("mrr", label_types=(*CANDIDATES, *MATCH), best="high", scale="share")
def mean_reciprocal_rank(predicted: np.ndarray | Ragged, labels: Any, task: Task, *, k: Count | None = None) -> float:
    """Mean over queries of 1/b for the rank b of the first right answer, 0 where b > k.

    Of equally likely candidates the earlier one comes first, as in a prediction.
    """
    if isinstance(predicted, Ragged):
        return float(_reciprocals(_ranks_of_candidates(predicted, labels), k).mean())
    return _mean(_reciprocals(predicted[:, BEST_RANK], k), predicted)


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


def _reciprocals(ranks: np.ndarray, k: int | None) -> np.ndarray:
    """1/rank, 0 beyond k."""
    return 1 / ranks * (ranks <= (k or np.inf))


def _ranks_of_candidates(predicted: Ragged, labels: np.ndarray) -> np.ndarray:
    """[examples] where each row's right candidate stands, the likeliest first."""
    ranks: list[int] = []
    for probabilities, label in zip(predicted, labels.tolist(), strict=True):
        order = np.argsort(-probabilities, kind="stable")
        ranks.append(1 + int(np.flatnonzero(order == label)[0]))
    return np.array(ranks)


def _mean(values: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.average(values, weights=predicted[:, WEIGHT]))
