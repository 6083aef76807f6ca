"""A part of the data, and what is held out: drawn at random, but the same for every seed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command import check_refused, manyheads
from manyheads.errors import UserError
from manyheads.tasks.load import TaskData, load_tasks
from manyheads.tasks.resolve import load_recipe

ToyRecipe = Callable[..., dict[str, Any]]


def ids(data: TaskData, split: str) -> list[str]:
    found = getattr(data, split)
    return [] if found is None else found.ids.to_pylist()


def test_parts_are_random_in_order_and_the_same_for_every_seed(toy_recipe: ToyRecipe) -> None:
    tasks = {"mood": {"train": "mood.csv", "max_train": 10, "max_dev": 3}}
    first, second = (load_tasks(load_recipe(toy_recipe(tasks=tasks, seed=seed)))["mood"] for seed in (0, 1))
    assert (len(ids(first, "train")), len(ids(first, "dev"))) == (10, 3)
    for split in ("train", "dev"):
        found = ids(first, split)
        assert found == ids(second, split)
        assert found == sorted(found, key=int), "in the order of the file"
        assert found != [str(number) for number in range(len(found))], "not just the first ones"
    assert not set(ids(first, "train")) & set(ids(first, "dev"))


def test_more_than_there_is_is_all_of_it(toy_recipe: ToyRecipe) -> None:
    tasks = {"mood": {"train": "mood.csv", "max_train": 1000}}
    data = load_tasks(load_recipe(toy_recipe(tasks=tasks)))["mood"]
    assert len(ids(data, "train")) + len(ids(data, "dev")) == 40


def test_select_is_taken_from_train_alone(toy_recipe: ToyRecipe) -> None:
    plain = load_tasks(load_recipe(toy_recipe()))["mood"]
    chosen = load_tasks(load_recipe(toy_recipe(evaluate={"select": 0.25})))["mood"]
    assert ids(chosen, "dev") == ids(plain, "dev")
    assert sorted([*ids(chosen, "train"), *ids(chosen, "select")]) == sorted(ids(plain, "train"))
    assert len(ids(chosen, "select")) == 9
    assert plain.select is None
    tiny = {"mood": {"train": "mood.csv", "max_train": 1}}
    with pytest.raises(UserError, match=r"leave out evaluate\.select"):
        load_tasks(load_recipe(toy_recipe(tasks=tiny, evaluate={"select": 0.5})))


@pytest.mark.slow
def test_tasks_can_be_left_out_of_training_but_not_of_the_order(recipe_file: Callable[..., Path]) -> None:
    result = manyheads("train", recipe_file(), "training.active_tasks=[near]")
    assert result.returncode == 0, result.stderr
    assert "task mood: left out (training.active_tasks)" in result.stderr
    assert "near" in result.stdout
    assert "mood" not in result.stdout
    check_refused(
        manyheads("train", recipe_file(), "training.active_tasks=[neer]"),
        "training.active_tasks: no task 'neer'",
        "'near'",
    )


@pytest.mark.slow
def test_the_toy_encoder_needs_no_files(recipe_file: Callable[..., Path]) -> None:
    result = manyheads("train", recipe_file(), "encoder=toy", "training.max_steps=2")
    assert result.returncode == 0, result.stderr
    assert "encoder: toy (made on the spot, untrained)" in result.stderr
