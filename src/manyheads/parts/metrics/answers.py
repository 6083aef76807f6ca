"""Metrics of answers, as SQuAD's evaluation script counts them, from 0 to 1.

`predicted` and `labels` are ragged columns of `kind: answer-span`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from manyheads.data.answers import exact_match, f1, read_answers
from manyheads.parts.metrics.base import ANSWERS, metric
from manyheads.storage.ragged import Ragged

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


def answer_values(metric_name: str, predicted: Ragged, labels: Ragged, task: Task) -> np.ndarray:
    """[examples] what the metric is the mean of."""
    compare: Callable[[str, Sequence[str]], float] = f1 if metric_name == "answer-f1" else exact_match
    values: list[float] = []
    for answer, codes in zip(task.kind.decode(predicted, task), labels, strict=True):
        values.append(compare(answer, [text for _, text in read_answers(codes)]))
    return np.array(values)


@metric("answer-f1", label_types=ANSWERS, best="high", scale="share")
def answer_f1(predicted: Ragged, labels: Ragged, task: Task) -> float:
    """Mean F1 of the words of answers, 2·common / (predicted + right), the best over a row's right answers.

    Words are compared in lower case, without punctuation and articles. Where there is no answer: whether none is given.
    """
    return float(answer_values("answer-f1", predicted, labels, task).mean())


@metric("answer-exact-match", label_types=ANSWERS, best="high", scale="share")
def answer_exact_match(predicted: Ragged, labels: Ragged, task: Task) -> float:
    """Share of answers that are one of the right ones, but for case, punctuation, articles and spaces."""
    return float(answer_values("answer-exact-match", predicted, labels, task).mean())
