"""Which layers do best alone, as another study's finished runs tell: paper A ranks layers so (its table 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from manyheads.errors import UserError
from manyheads.studies.columns import column_metric, high_is_best
from manyheads.studies.config import RankedLayers
from manyheads.studies.store import Result, ResultStore
from manyheads.studies.variants import PlannedRun


def ranked_layers(
    request: RankedLayers, runs: Sequence[tuple[str, PlannedRun]], results: ResultStore
) -> list[int] | None:
    """The best layers of every task that is asked for; None while a run that ranks them is not finished."""
    chosen: set[int] = set()
    for task in request.task:
        scores = _layer_scores(task, runs, results)
        if scores is None:
            return None
        if not scores:
            raise UserError(
                f"{request.layers_from}: no run trains one layer alone for task '{task}', so that layers could be "
                "ranked; expected rows with each: layer and training.trainable: ['{layer}'].",
                code="ranked-layers",
            )
        ranking = sorted(scores, key=lambda layer: (-scores[layer], layer))
        chosen.update(ranking[: request.top])
    return sorted(chosen)


def _layer_scores(task: str, runs: Sequence[tuple[str, PlannedRun]], results: ResultStore) -> dict[int, float] | None:
    """Layer → the mean over seeds of the task's primary metric, high for the best."""
    values: dict[int, list[float]] = {}
    for identity, planned in runs:
        trained = planned.recipe.training.trainable
        if task not in planned.recipe.tasks or not isinstance(trained, list) or len(trained) != 1:
            continue
        if not results.has(identity):
            return None
        values.setdefault(trained[0], []).append(_score(results.read(identity), task))
    return {layer: fmean(layer_values) for layer, layer_values in values.items()}


def _score(result: Result, task: str) -> float:
    value = result.metrics[task].get(column_metric(task, result.tasks))
    if value is None:  # a correlation with predictions that are all alike
        return -math.inf
    if high_is_best(task, result.tasks):
        return value
    return -value


def describe_layers(request: RankedLayers, layers: list[int] | None) -> str:
    """A note for readers of the table: which layers, and by whose ranking."""
    tasks = " and ".join(request.task)
    numbers = ", ".join(str(layer) for layer in layers or request.otherwise)
    if layers is None:
        return (
            f"Layers of {tasks}: {numbers}, as the study's file has them; {request.layers_from}, which would rank "
            "them, is not finished in this folder."
        )
    return f"Layers of {tasks}: {numbers}, the best {request.top} of each task in {request.layers_from} here."
