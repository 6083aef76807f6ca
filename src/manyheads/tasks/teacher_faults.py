"""Which tasks lack teachers, and why a task cannot be taught: what its loss or its kind cannot do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from manyheads import registry
from manyheads.config.recipe import Recipe
from manyheads.tasks.compatibility import Fault
from manyheads.tasks.task import Task

NOT_TAUGHT = "cannot-be-taught"


def missing_teachers(recipe: Recipe) -> list[str]:
    """The tasks that `manyheads distill` makes teachers for."""
    tasks = recipe.distill.tasks or recipe.training.active_tasks or list(recipe.tasks)
    return [task for task in tasks if task not in recipe.teachers]


def teachers_to_come(recipe: Recipe) -> dict[str, str]:
    """Tasks with texts without labels whose teachers `manyheads distill` makes → a sentence about that."""
    sentences = {}
    for task in missing_teachers(recipe):
        if recipe.tasks[task].unlabelled:
            sentences[task] = "its texts without labels need teachers; `manyheads distill` trains them first"
    return sentences


def taught_faults(tasks: Iterable[Task]) -> Iterator[Fault]:
    """Of tasks that have teachers, or are to have them: what of their own parts does not allow it."""
    for task in tasks:
        loss = registry.find("losses", task.loss.name).factory
        path = ("tasks", task.name, "loss")
        if task.kind.per_word and task.pooling.options.get("pieces") == "all":
            reason = "a teacher speaks of words, not of their pieces; leave out 'pieces: all'."
            yield Fault(("tasks", task.name, "pooling"), reason, NOT_TAUGHT)
        elif loss.whole_batch:
            reason = f"'{task.loss.name}' compares the examples of a batch, a teacher speaks of each on its own"
            yield Fault(path, f"{reason}; {_advice(task)}", NOT_TAUGHT)
        elif not loss.reads_soft_targets:
            reason = f"'{task.loss.name}' has no formula for what a teacher predicts"
            yield Fault(path, f"{reason}; {_advice(task)}", NOT_TAUGHT)


def _advice(task: Task) -> str:
    losses = []
    for part in registry.parts("losses"):
        if part.factory.reads_soft_targets and part.factory.why_incompatible(task) is None:
            losses.append(f"'{part.name}'")
    if not losses:
        return "give the task no teachers (distill.tasks)."
    return f"take {' or '.join(losses)}, or give the task no teachers (distill.tasks)."
