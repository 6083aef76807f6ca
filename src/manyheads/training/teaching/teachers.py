"""The teachers that a recipe names: opened, and checked against the tasks that they teach. No weights are read here."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.config.recipe import Recipe
from manyheads.data.folds import LeftOut
from manyheads.errors import UserError, nearest
from manyheads.model.earlier import ABOUT_KEY
from manyheads.model.fingerprint import model_fingerprint
from manyheads.model.saved_tasks import read_model_file
from manyheads.runs.opening import is_model_folder
from manyheads.storage.files import restore_folder
from manyheads.tasks.compatibility import Fault, refuse
from manyheads.tasks.load import TaskData
from manyheads.tasks.task import Task
from manyheads.tasks.teacher_faults import taught_faults

NOT_FITTING = "teacher-does-not-fit"
LEFT_OUT = "left_out"  # what a model folder's `about` says of the folds that it was trained without: task → fold


@dataclass(frozen=True)
class Teacher:
    """A model that teaches a task."""

    folder: Path  # of the model
    task: Task  # the teacher's own; without calibration, so that it predicts what it learnt
    left_out: LeftOut | None  # of the task's train: it was not trained on this fold, and predicts only it


def open_teachers(
    recipe: Recipe, loaded: dict[str, TaskData], to_come: Collection[str] = ()
) -> dict[str, list[Teacher]]:
    """Task → its teachers; all that does not fit is one message. `to_come`: tasks whose teachers are trained later."""
    taught = [loaded[name].task for name in (*recipe.teachers, *to_come)]
    refuse([*taught_faults(taught), *_unlabelled_faults(recipe, to_come)], recipe)
    teachers: dict[str, list[Teacher]] = {}
    faults: list[Fault] = []
    for name, folders in recipe.teachers.items():
        data = loaded[name]
        teachers[name] = []
        for number, folder in enumerate(folders):
            path = ("teachers", name, number)
            teacher = _open(model_folder(recipe, name, folder), data.task, recipe.location(*path))
            teachers[name].append(teacher)
            reason = data.task.kind.why_not_taught_by(teacher.task, data.task) or _why_other_rows(teacher, data)
            if reason is not None:
                faults.append(Fault(path, f"{folder}: task '{teacher.task.name}': {reason}.", NOT_FITTING))
    refuse(faults, recipe)
    refuse(list(_uncovered_faults(teachers, loaded)), recipe)
    return teachers


def model_folder(recipe: Recipe, task: str, teacher: str) -> Path:
    """The model of a run, or of a model folder, that a recipe names as a teacher."""
    folder, location = Path(teacher), recipe.location("teachers", task)
    if is_model_folder(folder):
        return folder
    model = folder / "best"
    restore_folder(model)
    if not is_model_folder(model):
        raise UserError(
            f"{location}: '{folder}' is neither a run folder with a model in best/ nor a model folder.", "no-teacher"
        )
    if not (folder / "metrics.json").is_file():
        raise UserError(
            f"{location}: '{folder}' is not trained to its end. Finish it (manyheads resume {folder}), or name its "
            "best/ to take it as it is.",
            "unfinished-teacher",
        )
    return model


def teacher_fingerprints(recipe: Recipe) -> dict[str, list[str]]:
    """Task → what its teachers' models are, whatever their folders are called."""
    fingerprints = {}
    for task, folders in recipe.teachers.items():
        fingerprints[task] = [model_fingerprint(model_folder(recipe, task, folder)) for folder in folders]
    return fingerprints


def describe_left_out(left_out: Mapping[str, LeftOut]) -> dict[str, Any]:
    """What a model folder says of the folds that its tasks were trained without; empty where none was left out."""
    folds = {name: fold.to_json() for name, fold in left_out.items()}
    return {LEFT_OUT: folds} if folds else {}


def rows_asked(teacher: Teacher, data: TaskData) -> np.ndarray:
    """The rows of train that a teacher predicts: all, or those that it was not trained on: its fold, and texts without
    labels that no other fold has."""
    if teacher.left_out is None:
        return np.arange(len(data.train))
    fold = teacher.left_out.fold
    in_fold = data.folds.contain(fold)
    unlabelled = data.train.take(np.arange(len(in_fold), len(data.train)))
    mask = np.concatenate([in_fold, data.folds.are_unseen(unlabelled.texts, fold)])
    return np.flatnonzero(mask)


def _open(folder: Path, task: Task, location: str) -> Teacher:
    content, tasks = read_model_file(folder)
    name = task.name
    if name not in tasks and len(tasks) == 1:
        (name,) = tasks
    if name not in tasks:
        raise UserError(f"{location}: {folder} has no task '{name}'.{nearest(name, tasks)}", NOT_FITTING)
    uncalibrated = replace(tasks[name], temperature=1.0, thresholds=())
    return Teacher(folder, uncalibrated, _left_out(folder, content.about, name))


def _left_out(folder: Path, about: dict[str, Any], name: str) -> LeftOut | None:
    """Where a model extends another, what it says of the tasks of that one stands one level deeper."""
    try:
        folds = about.get(LEFT_OUT, {})
        if name in folds:
            return LeftOut.from_json(folds[name])
        return _left_out(folder, about[ABOUT_KEY], name) if ABOUT_KEY in about else None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UserError(f"{folder}: what it says of the fold that was left out is damaged.", "damaged-model") from None


def _why_other_rows(teacher: Teacher, data: TaskData) -> str | None:
    """The fold that a teacher was trained without must be one of these very rows: else it has seen what it predicts."""
    if teacher.left_out is None or teacher.left_out == data.folds.without(teacher.left_out.fold):
        return None
    fold = teacher.left_out.fold
    return f"trained without fold {fold.number} of {fold.of} of other rows than train has here"


def _unlabelled_faults(recipe: Recipe, to_come: Collection[str]) -> Iterator[Fault]:
    for name, settings in recipe.tasks.items():
        if settings.unlabelled and name not in recipe.teachers and name not in to_come:
            reason = "texts without labels need teachers; name some under `teachers`, or run `manyheads distill`."
            yield Fault(("tasks", name, "unlabelled"), reason, "no-teacher")


def _uncovered_faults(teachers: dict[str, list[Teacher]], loaded: dict[str, TaskData]) -> Iterator[Fault]:
    """Where all teachers of a task were trained without a fold, every row must be in one of these folds."""
    for name, task_teachers in teachers.items():
        covered = np.zeros(len(loaded[name].train), dtype=bool)
        for teacher in task_teachers:
            covered[rows_asked(teacher, loaded[name])] = True
        if not covered.all():
            reason = (
                f"{int((~covered).sum()):,} of {len(covered):,} train rows are in a fold that no teacher was trained "
                "without; name the teachers of all folds."
            )
            yield Fault(("teachers", name), reason, "rows-without-teacher")
