"""Losses on one scale: what each task's loss is for a model that knows nothing but the base rate."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from manyheads.config.part import PartConfig
from manyheads.config.recipe import Recipe
from manyheads.errors import UserError
from manyheads.inference.evaluate import fixed_subset
from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.losses import Loss
from manyheads.training.linear_solver import best_constant_loss

LABELS = 20_000  # of each task, at most
SMALLEST = 1e-3  # a loss that is nearly 0 without learning anything is no scale


def constant_losses(model: ManyHeads, train: dict[str, TaskTokens], recipe: Recipe) -> dict[str, float]:
    """Task → min over constant outputs o of mean loss(o, y) over its labels; 1 where a loss compares examples.

    With cross-entropy it is the entropy of the classes, with squared errors on the standard scale 1.
    """
    losses = {}
    for name, tokens in train.items():
        loss = model.head(name).loss
        if loss.whole_batch:
            losses[name] = 1.0
            continue
        if loss.reads_inputs:
            losses[name] = _loss_of_equal_vectors(loss, tokens, fixed_subset(tokens, LABELS, recipe.seed))
            continue
        if tokens.candidates is not None:
            rows = fixed_subset(tokens, LABELS, recipe.seed)
            losses[name] = float(np.log(tokens.candidates.counts[rows]).mean())  # equal scores
            continue
        if tokens.task.kind.per_token:
            places = 1 + tokens.texts[1].lengths_of(fixed_subset(tokens, LABELS, recipe.seed))
            losses[name] = float(np.log(places).mean())
            continue
        if loss.reads_sentences:  # of words on their own: the best constant knows of no neighbours
            loss = PartConfig(name=tokens.task.kind.default_loss(tokens.task.labels)).build("losses", tokens.task)
        labels = _labels(tokens, fixed_subset(tokens, LABELS, recipe.seed))
        losses[name] = best_constant_loss(labels, loss, loss.outputs)
        if losses[name] < SMALLEST:
            raise UserError(
                f"{recipe.location('tasks', name)}: the best constant prediction has a loss of {losses[name]:.2g}, so "
                "there is next to nothing to learn (nearly all labels are equal?). Check the labels, or set "
                "combine.loss_scale to raw.",
                "constant-labels",
            )
    return losses


def _loss_of_equal_vectors(loss: Loss, tokens: TaskTokens, rows: np.ndarray) -> float:
    """The mean loss of a search whose texts all have one vector; 1 where that is next to nothing."""
    assert tokens.search is not None
    numbers = tokens.text_numbers(rows.tolist(), loss.reads_scores)
    counts = torch.from_numpy(tokens.search.negatives.lengths[rows] + 2)
    mean = float(loss(torch.ones(len(numbers), 2), numbers, counts).mean())  # type: ignore[call-arg]
    return mean if mean >= SMALLEST else 1.0


def _labels(tokens: TaskTokens, rows: np.ndarray) -> Tensor:
    assert tokens.labels is not None
    if tokens.label_places is not None:
        return tokens.word_labels(rows.tolist())
    labels = tokens.labels[torch.from_numpy(rows)]
    return labels.double() if labels.is_floating_point() else labels
