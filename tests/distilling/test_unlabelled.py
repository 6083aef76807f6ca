"""Texts without labels before their teachers are there: looked at early, planned and checked as `distill` trains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manyheads import UserError, distill, load_recipe, train
from manyheads.checks.check import check_data
from manyheads.training.plan import make_plan

ToyRecipe = Callable[..., dict[str, Any]]


def with_unlabelled(toy_recipe: ToyRecipe, file: str = "more.csv", **changes: Any) -> dict[str, Any]:
    tasks = {"mood": {"train": "mood.csv", "unlabelled": file}, "near": {"train": "near.tsv", "range": [0, 5]}}
    return toy_recipe(tasks=tasks, **changes)


@pytest.fixture
def more(toy_data: Path) -> None:
    (toy_data / "more.csv").write_text("sentence\nthe d was good\nthe e was dull\n")


def test_a_missing_file_is_said_before_any_teacher_is_trained(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    with pytest.raises(UserError) as fault:
        distill(with_unlabelled(toy_recipe, "nowhere.csv"), quiet=True)
    assert fault.value.code == "missing-file"
    assert not (toy_data / "runs").exists()


@pytest.mark.usefixtures("more")
def test_the_plan_is_of_the_student_that_distill_trains(toy_recipe: ToyRecipe) -> None:
    plan = make_plan(load_recipe(with_unlabelled(toy_recipe)), timed=True)
    assert {task.task: task.examples for task in plan.tasks} == {"mood": 36 + 2, "near": 27}
    assert any("`manyheads distill` trains them" in note for note in plan.notes)


@pytest.mark.usefixtures("more")
def test_a_check_says_which_command_trains_it(toy_recipe: ToyRecipe) -> None:
    findings = [finding for finding in check_data(load_recipe(with_unlabelled(toy_recipe))) if finding.kind == "recipe"]
    assert [(finding.task, finding.severity) for finding in findings] == [("mood", "note")]
    assert "`manyheads distill` trains them" in findings[0].message


@pytest.mark.usefixtures("more")
def test_what_distill_would_not_teach_is_refused(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    untaught = with_unlabelled(toy_recipe, distill={"tasks": ["near"]})
    for command in (make_plan, lambda recipe: distill(recipe, quiet=True)):
        with pytest.raises(UserError) as fault:
            command(load_recipe(untaught))
        assert fault.value.code == "no-teacher"
    assert not (toy_data / "runs").exists()
    with pytest.raises(UserError) as fault:
        train(with_unlabelled(toy_recipe), quiet=True)
    assert fault.value.code == "no-teacher"
