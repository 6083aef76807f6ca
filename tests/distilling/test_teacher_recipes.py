"""Which runs are a recipe's missing teachers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manyheads import UserError, load_recipe
from manyheads.distilling.teacher_recipes import plan_teachers

ToyRecipe = Callable[..., dict[str, Any]]


def names(recipe: dict[str, Any]) -> dict[str, list[str]]:
    return {
        task: [teacher.name for teacher in teachers] for task, teachers in plan_teachers(load_recipe(recipe)).items()
    }


def test_seeds_folds_and_tasks(toy_recipe: ToyRecipe) -> None:
    assert names(toy_recipe(distill={"seeds": 2})) == {"mood": ["mood-0", "mood-1"], "near": ["near-0", "near-1"]}
    seeded = names(toy_recipe(seed=1, distill={"seeds": 2, "tasks": ["near"]}))
    assert seeded == {"near": ["near-2", "near-3"]}, "students of different seeds share no teacher"
    folds = names(toy_recipe(distill={"seeds": 1, "folds": 2, "tasks": ["mood"]}))
    assert folds == {"mood": ["mood-0-fold-1", "mood-0-fold-2"]}
    assert list(names(toy_recipe(teachers={"mood": "somewhere"}, distill={"seeds": 1}))) == ["near"]


def test_a_teacher_has_one_task_and_nothing_of_the_student_s_company(toy_recipe: ToyRecipe) -> None:
    recipe = toy_recipe(
        combine={"losses": {"name": "fixed", "weights": {"mood": 2.0, "near": 1.0}}, "gradients": "pcgrad"},
        evaluate={"weights": {"near": 0.5}},
    )
    (teacher, *_) = plan_teachers(load_recipe(recipe))["mood"]
    assert list(teacher.tasks) == ["mood"]
    assert (teacher.combine.losses.name, teacher.combine.gradients) == ("sum", None)
    assert teacher.evaluate.weights == {}
    assert teacher.folder == Path(recipe["output"]) / "toy-teachers" / "mood-0"


def test_tasks_of_the_same_rows_stay_together_and_a_shared_head_becomes_one_of_their_own(
    toy_recipe: ToyRecipe, toy_data: Path
) -> None:
    (toy_data / "two.csv").write_text("text,stars,tone\n" + "".join(f"a film {i},{i % 3},{i % 2}\n" for i in range(20)))
    tasks = {
        "stars": {"train": "two.csv", "label": "stars", "loss": "ordinal-log-loss"},
        "tone": {"train": "two.csv", "label": "tone"},
        "other": {"train": "mood.csv", "head_of": "stars", "labels": ["0", "1", "2"], "unlabelled": "two.csv"},
    }
    planned = plan_teachers(load_recipe(toy_recipe(tasks=tasks, distill={"folds": 2})))
    teacher = planned["tone"][1]
    assert list(teacher.tasks) == ["stars", "tone"], "they hold out the same rows"
    assert teacher.training.active_tasks == ["tone"]
    folds = [settings.without_fold for settings in teacher.tasks.values()]
    assert [(fold.number, fold.of) for fold in folds if fold] == [(2, 2), (2, 2)]
    other = planned["other"][0].tasks["other"]
    assert (other.head_of, other.unlabelled, other.labels) == (None, None, ["0", "1", "2"])
    assert other.loss is not None
    assert other.loss.name == "ordinal-log-loss"


def test_a_length_that_is_not_one_of_passes_is_refused(toy_recipe: ToyRecipe) -> None:
    budget = {"training": {"budget": {"examples": 500}}}
    with pytest.raises(UserError) as fault:
        plan_teachers(load_recipe(toy_recipe(**budget)))
    assert fault.value.code == "teacher-length"
    (teacher, *_) = plan_teachers(load_recipe(toy_recipe(**budget, distill={"passes": 4})))["mood"]
    assert teacher.training.budget is not None
    assert teacher.training.budget.passes == 4
    tasks = {"mood": {"train": "mood.csv", "without_fold": {"number": 1, "of": 2}}}
    with pytest.raises(UserError) as fault:
        plan_teachers(load_recipe(toy_recipe(tasks=tasks, distill={"folds": 2})))
    assert fault.value.code == "conflicting-options"
    with pytest.raises(UserError, match="there are 2 folds, found number 3"):
        load_recipe(toy_recipe(tasks={"mood": {"train": "mood.csv", "without_fold": {"number": 3, "of": 2}}}))


def test_steps_of_all_tasks_together_are_refused(toy_recipe: ToyRecipe) -> None:
    phases = [{"epochs": 1, "steps": 4}]
    for steps in ({"training": {"epochs": 2, "max_steps": 5}}, {"phases": phases}):
        with pytest.raises(UserError) as fault:
            plan_teachers(load_recipe(toy_recipe(**steps)))
        assert fault.value.code == "teacher-length"
        (teacher, *_) = plan_teachers(load_recipe(toy_recipe(**steps, distill={"passes": 4})))["mood"]
        assert (teacher.training.max_steps, teacher.phases) == (None, None)


def test_a_teacher_has_the_phases_of_its_task(toy_recipe: ToyRecipe) -> None:
    """Of a phase that names its task alone the steps are the teacher's own."""
    phases = [{"name": "near", "tasks": ["near"], "epochs": 9}, {"name": "both", "tasks": ["near", "mood"]}]
    phases += [{"name": "mood", "tasks": ["mood"], "steps": 4}]
    recipe = load_recipe(toy_recipe(phases=phases, distill={"seeds": 1}))
    named = {}
    for task, (teacher,) in plan_teachers(recipe).items():
        named[task] = [phase.name for phase in teacher.phases or []]
    assert named == {"mood": ["both", "mood"], "near": ["near", "both"]}
    untrained = toy_recipe(phases=phases[:1], distill={"seeds": 1, "tasks": ["mood"]})
    with pytest.raises(UserError) as fault:
        plan_teachers(load_recipe(untrained))
    assert fault.value.code == "teacher-length"


def test_teachers_are_named_beside_the_recipe_or_where_the_user_stands(
    toy_recipe: ToyRecipe, recipe_file: Callable[..., Path], toy_data: Path
) -> None:
    file = recipe_file(teachers={"mood": "runs/a", "near": ["runs/b", "runs/c"]})
    assert load_recipe(file).teachers["near"] == [str(toy_data / "runs" / "b"), str(toy_data / "runs" / "c")]
    assert load_recipe(file, {"teachers.mood": "runs/d"}).teachers["mood"] == [str(Path.cwd() / "runs" / "d")]
    assert list(load_recipe(file, {"tasks": ["near"]}).teachers) == ["near"], "a task that is left out has none"
