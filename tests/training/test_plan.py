"""`manyheads plan`: what it counts by hand, what it advises, and that it writes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command import check_refused, manyheads
from manyheads import load_recipe
from manyheads.training.plan import Plan, make_plan

ToyRecipe = Callable[..., dict[str, Any]]


def planned(toy_recipe: ToyRecipe, **changes: Any) -> Plan:
    return make_plan(load_recipe(toy_recipe(**changes)), timed=False)


def test_counts_by_hand(toy_recipe: ToyRecipe) -> None:
    """36 and 27 rows at batch 8, four held out of the one and three of the other: 5 and 4 batches a pass."""
    plan = planned(toy_recipe)
    mood, near = plan.tasks
    assert (plan.steps, plan.epochs) == (10, 2)
    assert (mood.examples, mood.batches_per_pass, mood.batches, mood.passes, mood.most_seen) == (36, 5, 10, 2.0, 2)
    assert (near.examples, near.batches_per_pass, near.batches) == (27, 4, 10)
    seen = 2 * 27 + 2 * 8  # two passes of four batches, and two batches of the third
    assert near.passes == pytest.approx(seen / 27)
    assert near.most_seen == 3
    assert near.passes_per_epoch == pytest.approx((27 + 8) / 27)
    assert mood.share_of_batches == near.share_of_batches == 0.5
    assert mood.share_of_examples == pytest.approx(72 / (72 + seen))
    assert plan.advice == []


def test_advice_where_something_looks_wrong(toy_recipe: ToyRecipe) -> None:
    rare = planned(toy_recipe, training={"epochs": 1, "max_steps": 2, "batch_size": 8})
    assert rare.advice == [
        "examples that never come: mood 20 of 36, near 11 of 27. A larger training.budget, or more "
        "training.epochs, would use them."
    ], "one line, however many tasks"
    tasks = {"mood": {"train": "mood.csv", "batch_size": 1}, "near": {"train": "near.tsv", "range": [0, 5]}}
    often = planned(toy_recipe, tasks=tasks)
    assert "near is passed 9.0 times in an epoch, which invites over-fitting" in often.advice[0]
    capped = planned(toy_recipe, tasks=tasks, sampler={"name": "capped", "repeats": 2})
    assert capped.advice == []
    assert capped.tasks[1].passes_per_epoch == 2
    never = planned(toy_recipe, phases=[{"tasks": ["mood"]}])
    assert never.advice == ["near is never trained on: no phase has it, or the run is too short."]


@pytest.mark.slow
def test_the_command_tells_and_writes_nothing(recipe_file: Callable[..., Path], toy_data: Path) -> None:
    file = recipe_file(phases=[{"name": "first", "trainable": "heads", "epochs": 1}, {"sampler": "annealed"}])
    before = sorted(path.name for path in toy_data.iterdir())
    result = manyheads("plan", file)
    assert result.returncode == 0, result.stderr
    for words in (
        "task",
        "most seen",
        "phase first: 5 steps, 1 epoch, 5 rounds each, batch-round-robin, trains heads, "
        "learning rate 0.001 (linear after",
    ):
        assert words in result.stdout
    assert "An epoch is one pass over the largest task" in result.stdout
    assert "GB at the most (from 6 timed steps)" in result.stdout
    assert sorted(path.name for path in toy_data.iterdir()) == before
    found = json.loads(manyheads("plan", file, "--json", "--no-time").stdout)
    assert found["seconds"] is None
    assert [one["sampler"] for one in found["phases"]] == ["batch-round-robin", "annealed"]
    told = manyheads("train", file, "--json")
    assert "passes over each task: mood " in told.stderr
    trained = json.loads(told.stdout)
    assert trained["steps"] == found["steps"]
    shares = {one["task"]: one["share_of_examples"] for one in found["tasks"]}
    seen = trained["examples_seen"]
    assert shares == pytest.approx({task: count / sum(seen.values()) for task, count in seen.items()})
    check_refused(
        manyheads("plan", file, "sampler.name=batch-round-robin", "sampler.until=x"),
        "sampler.until: no task 'x'",
        "[bad-recipe]",
    )


def test_samplers_that_choose_batch_sizes_are_shown_with_them(toy_recipe: ToyRecipe) -> None:
    plan = planned(toy_recipe, sampler="full-data")
    assert [(one.task, one.batch_size, one.batches_per_pass) for one in plan.tasks] == [("mood", 7, 6), ("near", 5, 6)]
