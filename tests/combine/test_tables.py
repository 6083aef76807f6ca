"""Gradients of embedding tables that are kept from step to step are what fresh ones would be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from manyheads.combine.tables import Rows, WholeTables
from manyheads.job import assemble
from manyheads.progress import Reporter
from manyheads.recipe_file import load_recipe
from manyheads.schedule import set_trainable


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


@pytest.mark.parametrize("combine", ["sum", "pcgrad"])
@pytest.mark.parametrize("regularise", [[], ["l2"]], ids=["plain", "penalty on weights"])
def test_gradients_of_words_are_those_of_fresh_tables(
    toy_recipe: Callable[..., dict[str, Any]], toy_encoder: Path, combine: str, regularise: list[str]
) -> None:
    still = {"name": str(toy_encoder), "dropout": 0, "attention_dropout": 0}
    recipe = load_recipe(toy_recipe(encoder=still, combine=combine, regularise=regularise))
    job = assemble(recipe, Path("unused"), Reporter(quiet=True))
    phase = job.schedule.phases[0]
    set_trainable(job.model, phase)
    words = job.model.encoder.words
    touched = []
    for step in range(job.steps):
        found = []
        for fresh in (False, True):
            if fresh:
                kept, job.backward.tables = job.backward.tables, WholeTables()
            job.backward.step(job.rounds_of(step), phase.combination, (0, step), phase.regularisers)
            assert words.grad is not None
            assert not words.grad.is_sparse
            found.append(words.grad.clone())
            job.optimizer.zero_grad(set_to_none=True)
        job.backward.tables = kept
        assert torch.equal(*found), f"step {step}"
        touched.append(found[0].abs().sum(dim=1) > 0)
    if not regularise:
        assert any(not torch.equal(touched[0], one) for one in touched), "steps read different words"
