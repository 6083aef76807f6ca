"""What a run says of itself: before it starts, and of every evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyheads.config.recipe import Recipe
from manyheads.config.training import CombineSettings
from manyheads.console import counted
from manyheads.inference.evaluate import Evaluation
from manyheads.model.multitask import ManyHeads
from manyheads.parts.metrics import primary
from manyheads.tasks.task import Task
from manyheads.training.datasets import Datasets
from manyheads.training.gradients.task_gradients import shared_parameters
from manyheads.training.schedule import Phase, Schedule

LOOKED_AT = 50  # steps, to see whether tasks are drawn together
SHOWN_CLASSES = 12


def describe_run(recipe: Recipe, folder: Path, model: ManyHeads, datasets: Datasets, schedule: Schedule) -> list[str]:
    """Tasks with their data and parts, what was noted about the data, how long it will train and how."""
    lines = []
    for name, task in model.tasks.items():
        lines += _describe_task(task, datasets, schedule.batch_sizes[name])
    lines += _describe_common_rows(datasets, schedule)
    lines += [f"note: {note}" for note in datasets.notes]
    lines.append(f"{' → '.join(_describe_phases(recipe, schedule))}: {_describe_length(recipe, schedule)} → {folder}")
    for epoch_description in dict.fromkeys(phase.sampler.epoch_description for phase in schedule.phases):
        lines.append(f"  {epoch_description}")
    described: set[Any] = set()
    for phase in schedule.phases:
        settings = phase.settings.combine or recipe.combine
        if settings != CombineSettings() and phase.combination not in described:
            lines.append(f"  {describe_combination(recipe, model, phase)}")
        if phase.regularisers and phase.regularisers not in described:
            lines.append(f"  regularised by {describe_regularisers(model, phase)}")
        described |= {phase.combination, phase.regularisers}
    return lines


def describe_evaluation(evaluation: Evaluation, tasks: Mapping[str, Task]) -> str:
    """Each task's primary metric, and the overall score."""
    figures = []
    for name, metrics in evaluation.metrics.items():
        metric = primary(tasks[name])
        value = metrics[metric]
        figures.append(f"{name} {metric} {'undefined' if value is None else f'{value:.3f}'}")
    return f"{'  '.join(figures)}  overall {evaluation.overall:.3f}"


def _describe_task(task: Task, datasets: Datasets, batch_size: int) -> list[str]:
    if task.name not in datasets.dev:
        return [f"task {task.name}: left out (training.active_tasks)"]
    parts = ", ".join(part.name for part in (task.encoding, task.pooling, task.head, task.loss))
    if task.head_of:
        parts = f"the head of {task.head_of}"
    dev = int(datasets.dev[task.name].examples.labelled.sum())
    return [
        f"task {task.name}: {task.train_examples:,} train, {dev:,} dev, batch {batch_size} ({parts})",
        f"  {task.kind.summary(task)}",
    ]


def _describe_common_rows(datasets: Datasets, schedule: Schedule) -> list[str]:
    """Which tasks read the same rows, and whether they are drawn together."""
    lines = []
    steps = range(min(schedule.steps, LOOKED_AT))
    readers: dict[str, list[str]] = {}
    for name, data in datasets.train.items():
        if data.row_group is not None:
            readers.setdefault(data.row_group, []).append(name)
    for _, names in sorted(readers.items()):
        if len(names) == 1:
            continue
        drawn = "but are not drawn together, because of the sampler or different batch sizes"
        if any(_drawn_together(schedule, step, set(names)) for step in steps):
            drawn = "drawn together and encoded once"
        lines.append(f"tasks {', '.join(names)} read the same rows: {drawn}")
    return lines


def _drawn_together(schedule: Schedule, step: int, names: set[str]) -> bool:
    """Whether some round of a step has the same rows for several of these tasks."""
    for batches in schedule.rounds(step):
        drawn = [batch.indices.tolist() for batch in batches if batch.task in names]
        if len(drawn) > 1 and drawn[0] == drawn[1]:
            return True
    return False


def _describe_phases(recipe: Recipe, schedule: Schedule) -> list[str]:
    """'batch-round-robin', or with phases 'warm (heads; batch-round-robin)'."""
    names = []
    for phase in schedule.phases:
        sampler = (phase.settings.sampler or recipe.sampler).name
        names.append(sampler if recipe.phases is None else f"{phase.name} ({phase.trainable}; {sampler})")
    return names


def _describe_length(recipe: Recipe, schedule: Schedule) -> str:
    cut = "a part of " if schedule.steps < schedule.uncut_steps else ""
    length = f"{counted(schedule.steps, 'step')}, {cut}{counted(len(schedule.epoch_ends), 'epoch')}"
    if cut and len(recipe.phases or []) > len(schedule.phases):
        length += ", later phases left out by training.max_steps"
    return length


def describe_regularisers(model: ManyHeads, phase: Phase) -> str:
    return ", ".join(regulariser.describe(model) for regulariser in phase.regularisers)


def describe_combination(recipe: Recipe, model: ManyHeads, phase: Phase) -> str:
    """'losses by uncertainty, gradients by pcgrad: 3 copies of the shared gradient, 90 MB each'."""
    settings = phase.settings.combine or recipe.combine
    losses = f"losses by {settings.losses.name}"
    if recipe.training.layer_factors_on != "gradients":
        losses = f"{_describe_task_updates(recipe, model)}, {losses}"
    if settings.average == "batch":
        losses += " of batch means"
    copies = len(phase.settings.tasks or model.tasks)
    if settings.gradients is None:
        if copies < 2 or not recipe.training.conflicts:
            return losses
        size = sum(parameter.numel() for parameter in shared_parameters(model).values()) * 4 / 1e6
        return (
            f"{losses} (measuring conflicts holds {copies} copies of the shared gradient, at most {size:,.0f} MB each)"
        )
    chosen = shared_parameters(model, settings.layers).values()
    size = sum(parameter.numel() for parameter in chosen) * (2 if settings.copies == "bf16" else 4) / 1e6
    copied = f"{copies} copies of the shared gradient, at most {size:,.0f} MB each"
    where = f" in layers {', '.join(map(str, settings.layers))}" if settings.layers else ""
    return f"{losses}, gradients by {settings.gradients.name}{where}: {copied}"


def _describe_task_updates(recipe: Recipe, model: ManyHeads) -> str:
    """Also what that takes: a gradient of every task, and with an AdamW for each of them two moments."""
    encoder = shared_parameters(model, range(model.encoder.depth + 1)).values()
    size = sum(parameter.numel() for parameter in encoder) * 4 / 1e6
    tasks, on = len(model.tasks), recipe.training.layer_factors_on
    copies = 3 * tasks - 2 if on == "own-updates" else tasks
    return f"layer factors on {on} ({copies} more copies of the encoder, {size:,.0f} MB each)"
