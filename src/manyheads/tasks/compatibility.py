"""Every compatibility check, each with its reason and where it stands in the recipe.

`recipe_faults` needs the recipe alone, `task_faults` a task whose labels have been read, `encoder_faults` the encoder.
Parts are asked through the registry: a part says itself which tasks it fits (`why_incompatible`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from manyheads.config.location import KeyPath
from manyheads.config.part import PartConfig
from manyheads.config.recipe import Recipe
from manyheads.config.task_names import named_tasks
from manyheads.config.training import CombineSettings
from manyheads.errors import UserError, nearest
from manyheads.seeding import seeded_rng
from manyheads.tasks.part_compatibility import (
    factory_of,
    incompatible_parts,
    why_head_incompatible,
    why_output_incompatible,
)

if TYPE_CHECKING:
    from manyheads.encoder import Encoder
    from manyheads.tasks.task import Task


INCOMPATIBLE = "incompatible"


class Fault(NamedTuple):
    """Something that does not fit: where it stands in the recipe, and why."""

    path: KeyPath
    reason: str
    code: str = INCOMPATIBLE


def refuse(faults: Sequence[Fault], recipe: Recipe) -> None:
    """Stop with all faults, a line each, and the code of the first."""
    if faults:
        lines = [f"{recipe.location(*fault.path)}: {fault.reason}" for fault in faults]
        raise UserError("\n".join(lines), code=faults[0].code)


# --- the recipe alone -------------------------------------------------------------------------------------------


def recipe_faults(recipe: Recipe) -> Iterator[Fault]:
    """What can be said before any data is read."""
    for path, name in named_tasks(recipe):
        if name not in recipe.tasks:
            yield Fault(path, f"no task '{name}'.{nearest(name, recipe.tasks)}")
    if not any(recipe.evaluate.weights.get(name, 1.0) for name in recipe.tasks):
        yield Fault(("evaluate", "weights"), "at least one task must have a weight above 0.")
    yield from _optimizer_faults(recipe)
    yield from _head_owner_faults(recipe)
    yield from _task_name_faults(recipe)
    yield from _prediction_file_faults(recipe)
    yield from _both_orders_faults(recipe)
    for name, settings in recipe.tasks.items():
        if settings.head is not None:
            reason = why_head_incompatible(settings.encoding, settings.head)
            if reason:
                yield Fault(("tasks", name, "head"), reason)
        if settings.output is not None:
            reason = why_output_incompatible(settings.encoding, settings.output)
            if reason:
                yield Fault(("tasks", name, "output"), reason)
    yield from _combination_faults(recipe)
    yield from _length_faults(recipe)


def _length_faults(recipe: Recipe) -> Iterator[Fault]:
    if recipe.phases and "budget" in recipe.training.model_fields_set and recipe.training.budget is not None:
        reason = "phases have lengths of their own, `epochs` or `steps`; leave the budget out, or the phases."
        yield Fault(("training", "budget"), reason)


def _optimizer_faults(recipe: Recipe) -> Iterator[Fault]:
    training = recipe.training
    if training.momentum and training.optimizer != "sgd":
        reason = f"'{training.optimizer}' has moments of its own; 'momentum' goes with optimizer 'sgd'."
        yield Fault(("training", "momentum"), reason)
    if training.layer_factors_on != "gradients":
        for reason in _update_reasons(recipe):
            yield Fault(("training", "layer_factors_on"), reason)


def _update_reasons(recipe: Recipe) -> Iterator[str]:
    """Why tasks cannot have rates of their own."""
    updates = recipe.training.layer_factors_on
    if recipe.training.optimizer != "adamw":
        yield f"'{updates}' are those of 'adamw', not of '{recipe.training.optimizer}'; change one of them."
    combinations = [recipe.combine]
    regularisers = [*recipe.regularise]
    for phase in recipe.phases or []:
        combinations.append(phase.combine or recipe.combine)
        regularisers += phase.regularise or []
    aggregators = [combine.gradients.name for combine in combinations if combine.gradients is not None]
    for aggregator in dict.fromkeys(aggregators):
        yield f"'{aggregator}' makes one gradient of the tasks', which then have no '{updates}'; use one of the two."
    if updates == "own-updates":
        yield from _penalty_reasons(regularisers)


def _penalty_reasons(regularisers: list[PartConfig]) -> Iterator[str]:
    for regulariser in regularisers:
        if not factory_of("regularisers", regulariser).reads_examples:
            yield f"'{regulariser.name}' is a penalty that belongs to no task; take 'updates', or leave it out."


def _head_owner_faults(recipe: Recipe) -> Iterator[Fault]:
    """`head_of` names a task that has a head of its own."""
    for name, settings in recipe.tasks.items():
        owner = settings.head_of
        if owner is None:
            continue
        path = ("tasks", name, "head_of")
        if owner not in recipe.tasks and recipe.extends is not None:
            reason = f"no task '{owner}' in this recipe. Heads of the model that it extends are not shared: they stay."
            yield Fault(path, reason, "extends-old-head")
        elif owner not in recipe.tasks:
            yield Fault(path, f"no task '{owner}'.{nearest(owner, recipe.tasks)}")
        elif owner == name or recipe.tasks[owner].head_of is not None:
            yield Fault(path, f"task '{owner}' has no head of its own to share.")


def _task_name_faults(recipe: Recipe) -> Iterator[Fault]:
    """The best model of a task is kept in best-TASK/, that of averaged weights in best-averaged/."""
    if recipe.training.average_weights is not None and "averaged" in recipe.tasks:
        reason = (
            "best-averaged/ is the averaged model's; give the task another name, or leave out training.average_weights."
        )
        yield Fault(("tasks", "averaged"), reason, "task-name-taken")


def _prediction_file_faults(recipe: Recipe) -> Iterator[Fault]:
    writers: dict[str, str] = {}  # prediction file → task
    for name, settings in recipe.tasks.items():
        file = settings.predictions.file.format(task=name, split="dev")
        if file in writers:
            yield Fault(
                ("tasks", name, "predictions"),
                f"tasks '{writers[file]}' and '{name}' would both write their predictions to {file}.",
            )
        writers[file] = name


def _both_orders_faults(recipe: Recipe) -> Iterator[Fault]:
    for name, settings in recipe.tasks.items():
        if settings.both_orders and not settings.symmetric:
            reason = "only pairs without an order are predicted in both; say `symmetric: true`, or leave this out."
            yield Fault(("tasks", name, "both_orders"), reason, "both-orders-not-symmetric")


def _combination_faults(recipe: Recipe) -> Iterator[Fault]:
    """Combinations and regularisers are built to see whether they can be."""
    if any(name not in recipe.tasks for _, name in named_tasks(recipe)):
        return  # which is a fault already
    names = list(recipe.tasks)
    sections: list[tuple[KeyPath, CombineSettings | None, list[PartConfig] | None]] = [
        ((), recipe.combine, recipe.regularise)
    ]
    for number, phase in enumerate(recipe.phases or []):
        sections.append((("phases", number), phase.combine, phase.regularise))
    for path, combine, regularisers in sections:
        if combine is not None:
            reason = why_combination_incompatible(combine, names)
            if reason:
                yield Fault((*path, "combine"), reason)
        for regulariser in regularisers or []:
            reason = _why_not_built("regularisers", regulariser, names)
            if reason:
                yield Fault((*path, "regularise"), f"'{regulariser.name}': {reason}.")


def why_combination_incompatible(settings: CombineSettings, tasks: Sequence[str]) -> str | None:
    """Why this scalarizer and this aggregator cannot work, or cannot work together; None where they can."""
    losses, gradients = settings.losses, settings.gradients
    reason = _why_not_built("scalarizers", losses, tasks)
    if reason:
        return f"losses: '{losses.name}': {reason}."
    scalarizer = losses.build("scalarizers", tasks)
    if scalarizer.affine and not _is_affine(scalarizer, tasks):
        return f"losses: '{losses.name}' weighs tasks by their losses; its class must say affine = False."
    if gradients is None:
        for key in ("layers", "copies"):
            if getattr(settings, key) != CombineSettings.model_fields[key].default:
                return f"'{key}' is about changed gradients; name in 'gradients' what changes them."
        return None
    if not scalarizer.affine:
        return (
            f"'{losses.name}' weighs tasks by the size of their losses, '{gradients.name}' by their gradients; they "
            "cannot both. Use one of them, or losses such as 'fixed' or 'uncertainty'."
        )
    reason = _why_not_built("aggregators", gradients, tasks)
    return f"gradients: '{gradients.name}': {reason}." if reason else None


def _why_not_built(family: str, part: PartConfig, tasks: Sequence[str]) -> str | None:
    try:
        part.build(family, tasks)
    except ValueError as fault:
        return str(fault).removesuffix(".")
    return None


def _is_affine(scalarizer: Any, tasks: Sequence[str]) -> bool:
    """Whether what tasks are multiplied with is the same for other losses."""
    factors = []
    for start in (1.0, 2.0):
        losses = {task: start + number / 7 for number, task in enumerate(tasks)}
        with seeded_rng(0, "affine"):
            factors.append(scalarizer.factors(losses))
    return all(abs(factors[0][task] - factors[1][task]) < 1e-9 for task in tasks)


# --- a task whose labels have been read --------------------------------------------------------------------------


def batch_faults(recipe: Recipe, tasks: dict[str, Task], processes: int) -> list[Fault]:
    """Losses that compare the examples of a batch, where batches are cut up."""
    faults = []
    for task in tasks.values():
        for part, reason in _batch_reasons(task, recipe, processes):
            faults.append(Fault(("tasks", task.name, part), reason, "loss-needs-one-process"))
    return faults


def regulariser_faults(recipe: Recipe, tasks: dict[str, Task]) -> Iterator[Fault]:
    """Regularisers that can add nothing to the loss of a task they name; without names, to that of any task."""
    sections: list[tuple[KeyPath, list[PartConfig]]] = [(("regularise",), recipe.regularise)]
    for number, phase in enumerate(recipe.phases or []):
        sections.append((("phases", number, "regularise"), phase.regularise or []))
    for path, regularisers in sections:
        for regulariser in regularisers:
            named = regulariser.options.get("tasks")
            factory = factory_of("regularisers", regulariser)
            reasons = [factory.why_incompatible(tasks[name]) for name in named or tasks]
            refusals = [reason for reason in reasons if reason]
            if refusals and (named or len(refusals) == len(reasons)):
                yield Fault(path, f"'{regulariser.name}': {'; '.join(refusals)}. Name other tasks, or leave it out.")


def task_faults(task: Task, recipe: Recipe) -> list[Fault]:
    """Everything about a task whose labels have been read. Later checks need what earlier ones found right."""
    if recipe.tasks[task.name].symmetric and not task.pair:
        reason = "this task has one text column, and no order to draw; leave it out, or name two columns in `text`."
        return [Fault(("tasks", task.name, "symmetric"), reason, "symmetric-not-pairs")]
    if recipe.tasks[task.name].symmetric and (task.kind.per_candidate or task.kind.per_token):
        second = "its candidates" if task.kind.per_candidate else "its text"
        reason = f"a question and {second} have an order; leave it out."
        return [Fault(("tasks", task.name, "symmetric"), reason, "symmetric-not-pairs")]
    reasons = incompatible_parts(task)
    if not reasons and task.head_of is None:
        reasons = _refused_options(task)
    if not reasons:
        reasons = _batch_reasons(task, recipe, processes=1)
    return [Fault(("tasks", task.name, part), reason) for part, reason in reasons]


def _refused_options(task: Task) -> list[tuple[str, str]]:
    """Options that a part refuses for this task."""
    for part, family in (("loss", "losses"), ("output", "outputs")):
        try:
            getattr(task, part).build(family, task)
        except ValueError as fault:
            return [(part, f"{fault}.")]
    return []


def _batch_reasons(task: Task, recipe: Recipe, processes: int) -> list[tuple[str, str]]:
    """A loss over the whole batch needs a batch, which is not averaged with others, and all of it in one process."""
    if not factory_of("losses", task.loss).whole_batch:
        return []
    compares = f"'{task.loss.name}' compares the examples of a batch"
    reasons = []
    if (recipe.tasks[task.name].batch_size or recipe.training.batch_size) == 1:
        reasons.append(("loss", f"{compares}, so a batch of one has no loss."))
    combinations = [recipe.combine, *(phase.combine for phase in recipe.phases or [])]
    by_step = any(combine is not None and combine.average == "step" for combine in combinations)
    if recipe.training.accumulate > 1 and by_step:
        reasons.append(
            (
                "loss",
                f"{compares}, so it cannot be accumulated over batches; set training.accumulate to 1 and a larger "
                "batch_size, or combine.average to batch, which leaves each batch a loss of its own.",
            )
        )
    if processes > 1:
        reasons.append(("loss", f"{compares}, which several processes would cut up; train it in one."))
    return reasons


# --- the encoder ------------------------------------------------------------------------------------------------


def length_faults(recipe: Recipe, encoder: Encoder) -> Iterator[Fault]:
    if (recipe.encoder.max_length or 0) > encoder.max_length:
        reason = f"this encoder reads at most {encoder.max_length} tokens."
        yield Fault(("encoder", "max_length"), reason, "max-length-too-large")


def encoder_faults(recipe: Recipe, encoder: Encoder) -> Iterator[Fault]:
    """Lengths and layers that this encoder does not have, wherever a recipe names some."""
    yield from length_faults(recipe, encoder)
    separate_layers = len(encoder.layers) > 0
    if not separate_layers and recipe.training.layer_decay != 1:
        yield Fault(
            ("training", "layer_decay"),
            "this encoder's layers share their weights, and so their learning rate; leave it out.",
            "layers-share-weights",
        )
    for path, layers in _named_layers(recipe).items():
        if not separate_layers and layers not in (None, "all", "heads"):
            reason = "this encoder's layers share their weights; no layer can be chosen."
            yield Fault(path, reason, "layers-share-weights")
        elif isinstance(layers, str) and layers.startswith("top-"):
            if int(layers.removeprefix("top-")) > encoder.depth:
                yield Fault(path, f"this encoder has {encoder.depth} layers, found '{layers}'.", "no-such-layer")
        elif isinstance(layers, list) and max(layers) > encoder.depth:
            reason = f"layers are 1 to {encoder.depth} here, 0 is the embeddings; found {layers}."
            yield Fault(path, reason, "no-such-layer")


def _named_layers(recipe: Recipe) -> dict[KeyPath, Any]:
    training = recipe.training
    named: dict[KeyPath, Any] = {
        ("combine", "layers"): recipe.combine.layers,
        ("training", "trainable"): training.trainable,
    }
    if training.layer_learning_rates is not None:
        named["training", "layer_learning_rates", "layers"] = training.layer_learning_rates.layers
    for number, phase in enumerate(recipe.phases or []):
        named["phases", number, "trainable"] = phase.trainable
        if phase.combine is not None:
            named["phases", number, "combine", "layers"] = phase.combine.layers
    for name, task in recipe.tasks.items():
        if task.layer_factors is not None:
            named["tasks", name, "layer_factors", "layers"] = task.layer_factors.layers
    return named
