"""Gradients of embedding tables that are kept from step to step are what fresh ones would be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from manyheads.console import Reporter
from manyheads.tasks.resolve import load_recipe
from manyheads.training.gradients.tables import Rows, WholeTables
from manyheads.training.schedule import set_trainable
from manyheads.training.setup import assemble

pytestmark = pytest.mark.numeric


def test_rows_of_the_step_before_are_zero_again() -> None:
    parameter, tables = torch.nn.Parameter(torch.ones(5, 2)), WholeTables()
    first = tables.write(parameter, Rows(torch.tensor([1, 3]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])))
    assert first.tolist() == [[0, 0], [1, 2], [0, 0], [3, 4], [0, 0]]
    first.mul_(0.5)  # what clipping does
    second = tables.write(parameter, Rows(torch.tensor([0, 3]), torch.tensor([[5.0, 6.0], [7.0, 8.0]])))
    assert second.tolist() == [[5, 6], [0, 0], [0, 0], [7, 8], [0, 0]]
    assert second.data_ptr() == first.data_ptr()
    second.add_(1.0)
    tables.forget()
    third = tables.write(parameter, Rows(torch.tensor([2]), torch.tensor([[9.0, 9.0]])))
    assert third.tolist() == [[0, 0], [0, 0], [9, 9], [0, 0], [0, 0]]


@pytest.mark.slow
@pytest.mark.parametrize("combine", ["sum", "pcgrad"])
@pytest.mark.parametrize("regularise", [[], ["l2"]], ids=["plain", "penalty on weights"])
def test_gradients_of_words_are_those_of_fresh_tables(
    toy_recipe: Callable[..., dict[str, Any]], toy_encoder: Path, combine: str, regularise: list[str]
) -> None:
    still = {"name": str(toy_encoder), "dropout": 0, "attention_dropout": 0}
    recipe = load_recipe(toy_recipe(encoder=still, combine=combine, regularise=regularise))
    setup = assemble(recipe, Reporter(quiet=True))
    phase = setup.schedule.phases[0]
    set_trainable(setup.model, phase)
    words = setup.model.encoder.words
    touched = []
    for step in range(setup.schedule.steps):
        found = []
        for fresh in (False, True):
            if fresh:
                kept, setup.backward.tables = setup.backward.tables, WholeTables()
            setup.backward.step(setup.rounds(step), phase.combination, (0, step), phase.regularisers)
            assert words.grad is not None
            assert not words.grad.is_sparse
            found.append(words.grad.clone())
            setup.optimizer.zero_grad(set_to_none=True)
        setup.backward.tables = kept
        assert torch.equal(*found), f"step {step}"
        touched.append(found[0].abs().sum(dim=1) > 0)
    if not regularise:
        assert any(not torch.equal(touched[0], one) for one in touched), "steps read different words"


def test_what_is_added_to_a_gradient_that_is_there_is_not_left_behind(
    toy_recipe: Callable[..., dict[str, Any]], toy_encoder: Path
) -> None:
    still = {"name": str(toy_encoder), "dropout": 0, "attention_dropout": 0}
    setup = assemble(load_recipe(toy_recipe(encoder=still)), Reporter(quiet=True))
    phase = setup.schedule.phases[0]
    set_trainable(setup.model, phase)
    words = setup.model.encoder.words

    def gradient(*steps: int) -> torch.Tensor:
        for step in steps:
            setup.backward.step(setup.rounds(step), phase.combination, (0, step))
        found = words.grad
        assert found is not None
        setup.optimizer.zero_grad(set_to_none=True)
        return found.clone()

    one, other = gradient(0), gradient(1)
    assert torch.allclose(gradient(0, 1), one + other, atol=1e-7)
    assert torch.equal(gradient(0), one)


@pytest.mark.slow
def test_rows_of_several_passes_are_held_once(toy_recipe: Callable[..., dict[str, Any]], toy_encoder: Path) -> None:
    still = {"name": str(toy_encoder), "dropout": 0, "attention_dropout": 0}
    found = []
    for tokens in (8192, 20):
        recipe = load_recipe(toy_recipe(encoder=still, training={"tokens_per_pass": tokens, "accumulate": 3}))
        setup = assemble(recipe, Reporter(quiet=True))
        phase = setup.schedule.phases[0]
        set_trainable(setup.model, phase)
        held: list[int] = []
        add = setup.model.encoder.words.register_post_accumulate_grad_hook(
            lambda one, held=held: held.append(one.grad._indices().shape[1])
        )
        setup.backward.step(setup.rounds(0), phase.combination, (0, 0))
        add.remove()
        found.append((setup.model.encoder.words.grad, held))
    (whole, one), (pieces, many) = found
    assert len(many) > 10 > len(one)
    assert max(many) < len(whole) + 100, "no more than the table has, and a pass"
    assert torch.allclose(whole, pieces, atol=1e-6)
