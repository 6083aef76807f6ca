"""A run that starts from another run's best model (`init`): its encoder, and the heads of tasks of the same name."""

from __future__ import annotations

from pathlib import Path

from torch import Size, Tensor

from manyheads.config.recipe import EncoderSettings, Recipe
from manyheads.console import Reporter
from manyheads.errors import UserError
from manyheads.model.folder import load_model
from manyheads.model.multitask import ManyHeads
from manyheads.storage.files import restore_folder
from manyheads.tasks.task import PARTS, Task
from manyheads.training.extension import extended_folder


def encoder_source(recipe: Recipe, resumed: Path | None) -> EncoderSettings:
    """Where the encoder comes from: the recipe's name, the run to start from, or this run where it is resumed."""
    if recipe.extends is not None:
        return recipe.encoder.model_copy(update={"name": str(extended_folder(recipe, resumed))})
    if recipe.init is None:
        return recipe.encoder
    source = None if resumed is None else resumed / "best"
    if source is None or not source.is_dir():
        source = _init_folder(recipe)
    return recipe.encoder.model_copy(update={"name": str(source)})


def _init_folder(recipe: Recipe) -> Path:
    folder = Path(str(recipe.init))
    model = folder / "best"
    restore_folder(model)
    if not model.is_dir():
        raise UserError(f"{recipe.location('init')}: '{folder}' is not a run folder with a model in best/.", "no-model")
    return model


def take_over_heads(model: ManyHeads, recipe: Recipe, reporter: Reporter) -> set[str]:
    """Give heads of the same name the weights they have in the run that this one starts from. Returns their tasks."""
    earlier, _ = load_model(_init_folder(recipe))
    shared = [name for name in model.tasks if name in earlier.tasks]
    for name in shared:
        _check_labels(recipe, earlier.tasks[name], model.tasks[name])
        states = _head_states(earlier, name)
        if _shapes(states) != _shapes(_head_states(model, name)):
            raise UserError(
                f"{recipe.location('init')}: the head of task '{name}' in '{recipe.init}' has another shape "
                "(other classes or parts). Give this run's task another name.",
                "init-does-not-fit",
            )
        model.load_state_dict(states, strict=False)
        for difference in _differences(earlier.tasks[name], model.tasks[name]):
            reporter.say(f"init: task {name}: {difference}; its head is taken over all the same")
    new = ", ".join(name for name in model.tasks if name not in shared) or "none"
    taken_over = ", ".join(shared) or "none"
    reporter.say(f"init: encoder and heads of {recipe.init} (heads taken over: {taken_over}; new: {new})")
    return set(shared)


def _check_labels(recipe: Recipe, before: Task, now: Task) -> None:
    labels_before = ", ".join(before.labels.names) or "numbers"
    labels_now = ", ".join(now.labels.names) or "numbers"
    if labels_before != labels_now:
        raise UserError(
            f"{recipe.location('init')}: the labels of task '{now.name}' are {labels_before} in '{recipe.init}' and "
            f"{labels_now} here. Give this run's task another name.",
            "init-does-not-fit",
        )


def _head_states(model: ManyHeads, task: str) -> dict[str, Tensor]:
    names = model.head_names(task)
    return {name: tensor for name, tensor in model.head_states().items() if name in names}


def _shapes(tensors: dict[str, Tensor]) -> dict[str, Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}


def _differences(before: Task, now: Task) -> list[str]:
    """In which parts two tasks of one name differ, though their weights fit."""
    differences = []
    for part in PARTS:
        if getattr(before, part) != getattr(now, part):
            differences.append(f"{part} was {getattr(before, part).name}, is {getattr(now, part).name}")
    if (before.offset, before.unit) != (now.offset, now.unit):
        differences.append(f"its loss saw labels as {_scale(before)}, sees them as {_scale(now)}")
    return differences


def _scale(task: Task) -> str:
    return f"(y − {task.offset:.3g})/{task.unit:.3g}"
