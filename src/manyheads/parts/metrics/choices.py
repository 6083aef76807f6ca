"""Metrics of multiple choice beside `accuracy`.

`predicted` is ragged: the probabilities of each row's candidates; `labels` are the numbers of the right ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manyheads.parts.metrics.base import CANDIDATES, metric
from manyheads.storage.ragged import Ragged

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@metric("reciprocal-rank", label_types=CANDIDATES, best="high", scale="share")
def reciprocal_rank(predicted: Ragged, labels: np.ndarray, task: Task) -> float:
    """Mean of 1/rank of the right candidate among those of its row, the likeliest first.

    Of equally likely candidates the earlier one comes first, as in a prediction.
    """
    shares: list[float] = []
    for probabilities, label in zip(predicted, labels.tolist(), strict=True):
        order = np.argsort(-probabilities, kind="stable")
        shares.append(1.0 / (1 + int(np.flatnonzero(order == label)[0])))
    return float(np.mean(shares))
