"""A run's own data, read again from its recipe's files to evaluate on: dev, test or train."""

from __future__ import annotations

from typing import Literal

from manyheads.config.recipe import Recipe
from manyheads.console import Reporter
from manyheads.errors import UserError
from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.tasks.load import TaskData, load_tasks

Split = Literal["dev", "test", "train"]
SPLITS: tuple[Split, ...] = ("dev", "test", "train")


def read_split(
    recipe: Recipe, model: ManyHeads, split: Split, task: str | None = None
) -> tuple[dict[str, TaskTokens], dict[str, str]]:
    """The labelled data of one or all tasks; and of tasks that have none, why."""
    data: dict[str, TaskTokens] = {}
    unmeasured: dict[str, str] = {}
    for name in model.tasks:
        if name not in recipe.tasks and task in (None, name):  # a task of the model that the run extends
            unmeasured[name] = "the run was trained without its data; name a labelled file"
    for name, loaded in load_tasks(recipe).items():
        if name not in model.tasks:
            raise UserError(f"{recipe.location('tasks', name)}: the model has no such task.", code="unknown-task")
        if task is not None and name != task:
            continue
        examples = getattr(loaded, split)
        if examples is None or not len(examples.labelled_rows):
            unmeasured[name] = _why_unlabelled(loaded)
            continue
        data[name] = TaskTokens(model.tasks[name], examples, model.tokenizer, row_group=loaded.row_group)
    return data, unmeasured


def _why_unlabelled(loaded: TaskData) -> str:
    """Why a task has no labelled test data; its other splits are never without labels."""
    if loaded.test is None:
        return "the recipe names no test data"
    for note in loaded.notes:
        if "not measured" in note:
            return note.partition(": ")[2]
    return "its test data has no labels"


def check_unchanged(
    data: dict[str, TaskTokens], recipe: Recipe, split: Split, fingerprints: dict[str, str], reporter: Reporter
) -> None:
    """Say which data has changed since the run. Where dev was held out of train, that is an error."""
    for name, tokens in data.items():
        fingerprint = tokens.fingerprint()
        if fingerprint == fingerprints.get(f"{name} {split}", fingerprint):
            continue
        if split == "dev" and recipe.tasks[name].dev is None:
            raise UserError(
                f"task '{name}': its training file has changed since the run, and dev was held out of it: rows "
                "that were trained on would be counted. Restore the file, or name a `dev` file.",
                code="changed-data",
            )
        reporter.say(f"note: {name}: its {split} data has changed since the run")
