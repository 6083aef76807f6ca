"""Losses on one scale: each divided by what the best constant prediction loses."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyheads import UserError, load_recipe, train
from run_files import log_of

ToyRecipe = Callable[..., dict[str, Any]]
ONE_STEP = {"epochs": 1, "max_steps": 1, "batch_size": 8, "learning_rate": 1e-3, "max_grad_norm": None}


def first_step(toy_recipe: ToyRecipe, loss_scale: str, task: str) -> tuple[dict[str, Any], list[Any]]:
    """The log's record of the only step, and the labels of train."""
    settings = toy_recipe(
        name=f"{task}-{loss_scale}",
        combine={"name": "sum", "loss_scale": loss_scale},
        training=ONE_STEP,
    )
    settings["tasks"] = {task: settings["tasks"][task]}
    run = train(load_recipe(settings), quiet=True)
    [record] = log_of(run.folder)
    counts = run.model.tasks[task].counts
    return record, list(counts)


@pytest.mark.slow
def test_gradients_are_of_the_divided_loss_and_the_log_has_the_raw_one(toy_recipe: ToyRecipe) -> None:
    """Of classes the divisor is the entropy of train's labels: H = −Σ p·log p."""
    raw, counts = first_step(toy_recipe, "raw", "mood")
    divided, _ = first_step(toy_recipe, "constant", "mood")
    shares = np.array(counts) / sum(counts)
    entropy = -float((shares * np.log(shares)).sum())
    assert not math.isclose(entropy, 1.0, rel_tol=0.1), "else dividing by it would not show"
    assert divided["loss"] == pytest.approx(raw["loss"], rel=1e-6)
    assert divided["gradient_norm"] == pytest.approx(raw["gradient_norm"] / entropy, rel=1e-4)


@pytest.mark.slow
def test_labels_that_are_nearly_all_equal_are_refused(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    rows = "".join(f"{number},a text {number},{0.5 + 1e-9 * (number == 7)}\n" for number in range(40))
    (toy_data / "flat.csv").write_text("id,sentence,label\n" + rows)
    settings = toy_recipe(combine={"name": "sum", "loss_scale": "constant"})
    settings["tasks"] = {"flat": {"train": "flat.csv", "kind": "regression", "scale": "raw"}}
    with pytest.raises(UserError) as fault:
        train(load_recipe(settings), quiet=True)
    assert fault.value.code == "constant-labels"
    assert "flat" in str(fault.value)
