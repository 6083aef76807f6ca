"""The recipes of the teachers that are missing: the student's own for one task, by seed and fold."""

from __future__ import annotations

from pathlib import Path

from manyheads.config.distill import DistillSettings
from manyheads.config.location import KeyPath
from manyheads.config.part import PartConfig
from manyheads.config.recipe import Recipe
from manyheads.config.task import Fold, TaskSettings
from manyheads.config.task_names import without_tasks
from manyheads.config.training import Budget, PhaseSettings, Training
from manyheads.errors import UserError
from manyheads.tasks.compatibility import recipe_faults, refuse
from manyheads.tasks.same_rows import same_rows
from manyheads.tasks.task import PARTS
from manyheads.tasks.teacher_faults import missing_teachers


def plan_teachers(recipe: Recipe) -> dict[str, list[Recipe]]:
    """Task → the recipes of its teachers, of the tasks that the student's recipe names none for."""
    planned: dict[str, list[Recipe]] = {}
    for task in missing_teachers(recipe):
        planned[task] = []
        for seed in teacher_seeds(recipe):
            for fold in _folds(recipe, task):
                planned[task].append(teacher_recipe(recipe, task, seed, fold))
    return planned


def teacher_seeds(recipe: Recipe) -> range:
    """n·s … n·s + n − 1 for n teachers of a student with seed s: students of different seeds share no teacher."""
    count = recipe.distill.seeds
    return range(count * recipe.seed, count * (recipe.seed + 1))


def _folds(recipe: Recipe, task: str) -> list[Fold | None]:
    count = recipe.distill.folds
    if count is None:
        return [None]
    if recipe.tasks[task].without_fold is not None:
        raise UserError(
            f"{recipe.location('tasks', task, 'without_fold')}: distill.folds leaves out a fold after the other; "
            "name one of the two.",
            "conflicting-options",
        )
    return [Fold(number=number, of=count) for number in range(1, count + 1)]


def teacher_recipe(recipe: Recipe, task: str, seed: int, fold: Fold | None) -> Recipe:
    """The student's recipe for one task alone.

    Tasks that read the same rows hold out the same ones, so those of the task's rows stay in the recipe; only the task
    itself is active.
    """
    row_groups = same_rows(recipe)
    names = [task]
    if task in row_groups:
        names = [name for name in recipe.tasks if row_groups.get(name) == row_groups[task]]
    tasks = {}
    for name in names:
        settings = _with_own_head(recipe, name).model_copy(update={"unlabelled": None})
        tasks[name] = settings if fold is None else settings.model_copy(update={"without_fold": fold})
    changes = {
        "name": f"{task}-{seed}" if fold is None else f"{task}-{seed}-fold-{fold.number}",
        "output": str(Path(recipe.output) / f"{recipe.name}-teachers"),
        "tasks": tasks,
        "teachers": {},
        "distill": DistillSettings(),
        "seed": seed,
        "training": _training(recipe, task, alone=len(names) == 1),
        "combine": recipe.combine.model_copy(
            update={"losses": PartConfig(name="sum"), "gradients": None, "layers": None, "copies": "float32"}
        ),
        "phases": _phases(recipe, task),
        "checkpoint": recipe.checkpoint.model_copy(update={"best_per_task": False}),
        "evaluate": recipe.evaluate.model_copy(update={"weights": {}}),  # of one task there is nothing to weigh
        "report": False,
        "trackers": [],
    }
    teacher = without_tasks(recipe.model_copy(update=changes), set(recipe.tasks) - set(names))
    refuse(list(recipe_faults(teacher)), teacher)
    return teacher


def _with_own_head(recipe: Recipe, task: str) -> TaskSettings:
    """A task that shares a head gets one of its own, made like the shared one."""
    settings = recipe.tasks[task]
    if settings.head_of is None:
        return settings
    owner = recipe.tasks[settings.head_of]
    return settings.model_copy(update={"head_of": None, **{part: getattr(owner, part) for part in PARTS}})


def _training(recipe: Recipe, task: str, alone: bool) -> Training:
    """As long as the student's in passes over the task."""
    training, passes = recipe.training, recipe.distill.passes
    changes: dict[str, object] = {"active_tasks": None if alone else [task]}
    if passes is not None:
        changes |= {"budget": Budget(passes=passes), "epochs": None, "max_steps": None}
    elif training.budget is not None and training.budget.passes is None:
        raise _no_length(recipe, ("training", "budget"), "this budget is that of all tasks together")
    elif training.max_steps is not None:
        raise _no_length(recipe, ("training", "max_steps"), "these steps are those of all tasks together")
    return training.model_copy(update=changes)


def _phases(recipe: Recipe, task: str) -> list[PhaseSettings] | None:
    """Those that train the task, in which there is nothing to combine; None where `distill.passes` says how long."""
    if recipe.phases is None or recipe.distill.passes is not None:
        return None
    phases = []
    for number, phase in enumerate(recipe.phases):
        if phase.tasks is not None and task not in phase.tasks:
            continue
        if phase.steps is not None and phase.tasks != [task]:
            raise _no_length(recipe, ("phases", number, "steps"), "these steps are those of all its tasks together")
        phases.append(phase.model_copy(update={"combine": None}))
    if not phases:
        raise _no_length(recipe, ("phases",), f"none of them trains '{task}'")
    return phases


def _no_length(recipe: Recipe, path: KeyPath, reason: str) -> UserError:
    advice = "say how often a teacher passes over its own task (distill.passes)"
    return UserError(f"{recipe.location(*path)}: {reason}; {advice}.", "teacher-length")
