"""One merged pass, several passes, task by task, accumulated: always the same gradient."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from manyheads.config.recipe import EncoderSettings
from manyheads.encoder import load_encoder
from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.samplers import Batch
from manyheads.parts.scalarizers import Sum
from manyheads.tasks.load import load_tasks
from manyheads.tasks.resolve import load_recipe
from manyheads.tokens.tokenizer import Tokenizer
from manyheads.training.gradients.backward import Backward
from manyheads.training.gradients.combination import Combination
from manyheads.training.gradients.non_finite import NonFiniteLoss
from manyheads.training.gradients.passes import split_passes

pytestmark = pytest.mark.numeric


@pytest.fixture
def setting(toy_recipe: Callable[..., dict[str, Any]]) -> tuple[ManyHeads, dict[str, TaskTokens]]:
    recipe = load_recipe(toy_recipe())
    loaded = load_tasks(recipe)
    found = load_encoder(EncoderSettings(name=recipe.encoder.name, dropout=0, attention_dropout=0))
    tokenizer = Tokenizer(found.found.folder)
    model = ManyHeads(found.encoder, {name: one.task for name, one in loaded.items()}, tokenizer, None, seed=0)
    return model.double().eval(), {name: TaskTokens(one.task, one.train, tokenizer) for name, one in loaded.items()}


def gradient(
    model: ManyHeads, data: dict[str, TaskTokens], rounds: list[list[Batch]], tokens: int = 10**9
) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    model.zero_grad(set_to_none=True)
    losses = Backward(model, data, tokens, nullcontext).step(rounds, Combination(Sum(list(model.tasks)))).losses
    return {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}, losses


def check_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    largest = max(float(tensor.abs().max()) for tensor in one.values())
    for name, tensor in one.items():
        assert (tensor - other[name]).abs().max() < 1e-12 * largest, name


MOOD, NEAR = Batch("mood", np.array([3, 0, 7, 9, 20])), Batch("near", np.array([1, 4, 2]))


def test_merged_equals_the_sum_of_separate_tasks(setting: tuple[ManyHeads, dict[str, TaskTokens]]) -> None:
    merged, losses = gradient(*setting, [[MOOD, NEAR]])
    mood, mood_loss = gradient(*setting, [[MOOD]])
    near, near_loss = gradient(*setting, [[NEAR]])
    names = mood.keys() | near.keys()
    check_equal(merged, {name: mood.get(name, 0) + near.get(name, 0) for name in names})  # type: ignore[misc]
    assert losses == pytest.approx({**mood_loss, **near_loss}, rel=1e-12)
    assert not any(name.startswith("heads.near-head") for name in mood), "a task's head has no gradient without it"


def test_loss_is_the_mean_over_the_batch_by_an_independent_reference(
    setting: tuple[ManyHeads, dict[str, TaskTokens]],
) -> None:
    model, data = setting
    _, losses = gradient(model, data, [[MOOD]])
    values = []
    for row in MOOD.indices:
        logits = model([("mood", [model.inputs("mood", data["mood"].texts, int(row))])])[0][0].detach().numpy()
        label = int(data["mood"].examples.labels[row])  # type: ignore[index]
        values.append(np.log(np.exp(logits).sum()) - logits[label])
    assert losses["mood"] == pytest.approx(np.mean(values), rel=1e-12)


@pytest.mark.parametrize("tokens", [1, 20, 45])
def test_a_budget_of_tokens_changes_nothing(setting: tuple[ManyHeads, dict[str, TaskTokens]], tokens: int) -> None:
    model, data = setting
    passes = split_passes(model, data, [MOOD, NEAR], tokens)
    assert len(passes) > 1
    for one in passes:
        size = sum(len(sequence.ids) for _, _, inputs in one for example in inputs for sequence in example)
        assert size <= tokens or sum(len(rows) for _, rows, _ in one) == 1
    seen = [(task, row) for one in passes for task, rows, _ in one for row in rows]
    assert seen == [(batch.task, row) for batch in (MOOD, NEAR) for row in batch.indices.tolist()]
    check_equal(gradient(model, data, [[MOOD, NEAR]], tokens)[0], gradient(model, data, [[MOOD, NEAR]])[0])


def test_accumulated_rounds_equal_one_large_round(setting: tuple[ManyHeads, dict[str, TaskTokens]]) -> None:
    """Also with a short last batch: the step divides by all its examples, not batch by batch."""
    halves = [[Batch("mood", MOOD.indices[:3]), NEAR], [Batch("mood", MOOD.indices[3:])]]
    accumulated, losses = gradient(*setting, halves)
    whole, expected = gradient(*setting, [[MOOD, NEAR]])
    check_equal(accumulated, whole)
    assert losses == pytest.approx(expected, rel=1e-12)


def test_a_loss_that_is_not_finite_names_task_and_rows(setting: tuple[ManyHeads, dict[str, TaskTokens]]) -> None:
    model, data = setting
    with torch.no_grad():
        model.head("near").head.dense.bias.fill_(float("nan"))  # type: ignore[union-attr, operator]
    with pytest.raises(NonFiniteLoss) as fault:
        gradient(model, data, [[MOOD, NEAR]])
    assert (fault.value.task, fault.value.rows) == ("near", [1, 4, 2])
