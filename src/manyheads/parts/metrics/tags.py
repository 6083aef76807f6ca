"""Metrics of tagged words: entities that are found with their exact words and type, and words with the right tag.

`predicted` and `labels` are ragged: [words, tags] probabilities and [words] class indices of each example. An I-X that
goes on with nothing begins an entity, as seqeval counts by default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manyheads.data.tags import TagNames, all_entities
from manyheads.parts.metrics.base import TAGS, metric
from manyheads.storage.ragged import Ragged

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

NAN = float("nan")


def count_entities(predicted: Ragged, labels: Ragged, task: Task) -> np.ndarray:
    """[types, 3] how many entities of each type are right, predicted, and labelled."""
    names = TagNames.of(task.labels.names)
    truth = all_entities(labels, names)
    guessed = all_entities(Ragged(task.kind.decode(predicted.values, task), labels.starts), names)
    right = truth.types[np.isin(truth.keys(), guessed.keys(), assume_unique=True)]
    counts = [np.bincount(types, minlength=len(names.types)) for types in (right, guessed.types, truth.types)]
    return np.stack(counts, axis=1)


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else NAN


@metric("entity-f1", label_types=TAGS, best="high", scale="share")
def entity_f1(predicted: Ragged, labels: Ragged, task: Task) -> float:
    """F1 of entities of all types together: 2·right / (predicted + labelled).

    An entity is right if its words and its type are. Undefined where there is none and none is predicted.
    """
    right, guessed, truth = count_entities(predicted, labels, task).sum(axis=0)
    return _share(2 * right, guessed + truth)


@metric("entity-precision", label_types=TAGS, best="high", scale="share")
def entity_precision(predicted: Ragged, labels: Ragged, task: Task) -> float:
    """Share of the predicted entities that are right, of all types together."""
    right, guessed, _ = count_entities(predicted, labels, task).sum(axis=0)
    return _share(right, guessed)


@metric("entity-recall", label_types=TAGS, best="high", scale="share")
def entity_recall(predicted: Ragged, labels: Ragged, task: Task) -> float:
    """Share of the labelled entities that are found, of all types together."""
    right, _, truth = count_entities(predicted, labels, task).sum(axis=0)
    return _share(right, truth)


@metric("entity-macro-f1", label_types=TAGS, best="high", scale="share")
def entity_macro_f1(predicted: Ragged, labels: Ragged, task: Task) -> float:
    """Mean over types of entity F1; a type that is neither labelled nor predicted is left out."""
    counts = count_entities(predicted, labels, task)
    totals = counts[:, 1] + counts[:, 2]
    seen = totals > 0
    return float((2 * counts[seen, 0] / totals[seen]).mean()) if seen.any() else NAN


@metric("entity-f1-per-type", label_types=TAGS, best="high", scale="share", per_class=True)
def entity_f1_per_type(predicted: Ragged, labels: Ragged, task: Task) -> dict[str, float]:
    """Entity F1 of each type.

    Undefined for a type that is neither labelled nor predicted.
    """
    counts = count_entities(predicted, labels, task)
    values = {}
    for name, (right, guessed, truth) in zip(TagNames.of(task.labels.names).types, counts.tolist(), strict=True):
        values[name] = _share(2 * right, guessed + truth)
    return values


@metric("token-accuracy", label_types=TAGS, best="high", scale="share")
def token_accuracy(predicted: Ragged, labels: Ragged, task: Task) -> float:
    """Share of words whose tag is right, those outside of entities included."""
    return float((task.kind.decode(predicted.values, task) == labels.values).mean())
