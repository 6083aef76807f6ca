"""What a recipe will do, before it does it: how often each task is seen, what an epoch is, how long it will take."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from manyheads.config.recipe import Recipe
from manyheads.console import Reporter, counted, duration
from manyheads.model.multitask import ManyHeads
from manyheads.seeding import generator
from manyheads.training.datasets import Datasets, batches_of
from manyheads.training.frozen_cache import FrozenCache
from manyheads.training.gradients.backward import Backward
from manyheads.training.measured_budget import evaluated_tokens, probe_work, time_prediction
from manyheads.training.optim import parameter_groups
from manyheads.training.schedule import Phase, Schedule, set_trainable
from manyheads.training.setup import assemble
from manyheads.training.summary import describe_combination, describe_regularisers

COUNTED_STEPS = 20_000  # that `train` goes through before it starts, which takes about a second
TIMED_STEPS = 6  # after one that warms up
LOOKED_AT = 200  # steps, of which the one with most tokens is run for its memory
FROZEN = "frozen"  # the group of what does not learn
OFTEN = 5.0  # passes over a task in one epoch; paper D caps there, paper E over-fitted at 16


@dataclass(frozen=True)
class TaskPlan:
    """How one task fares over the whole run."""

    task: str
    examples: int  # train rows that it learns from
    batch_size: int
    batches_per_pass: int
    batches: int  # in the whole run
    batches_per_epoch: float  # on average
    passes: float  # over the task's examples, in the whole run
    passes_per_epoch: float  # the most in any epoch
    most_seen: int  # how often the most-repeated example comes
    never_seen: int  # examples that never come
    share_of_batches: float
    share_of_examples: float


@dataclass(frozen=True)
class Plan:
    """What `manyheads plan` tells."""

    tasks: list[TaskPlan]
    phases: list[dict[str, Any]]
    steps: int
    epochs: int
    groups: list[dict[str, Any]]  # of parameters, as the optimizer has them
    advice: list[str]
    notes: list[str]
    seconds: float | None = None  # estimated, probe and evaluations included
    memory: float | None = None  # gigabytes at the most, as measured

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def make_plan(recipe: Recipe, reporter: Reporter | None = None, timed: bool = True) -> Plan:
    """The plan of a recipe; `timed` also runs a few steps on the real encoder."""
    reporter = reporter or Reporter(quiet=True)
    setup = assemble(recipe, reporter, to_distill=True)
    recipe = setup.recipe  # a budget in minutes is one of examples there
    model, datasets, schedule = setup.model, setup.datasets, setup.schedule
    cache = FrozenCache(model, datasets, recipe.training, setup.reporter, setup.processes)
    tasks = _count(model, datasets, schedule)
    plan = Plan(
        tasks=tasks,
        phases=[_describe_phase(recipe, model, phase, cache) for phase in schedule.phases],
        steps=schedule.steps,
        epochs=len(schedule.epoch_ends),
        groups=_groups(recipe, model, schedule),
        advice=_advise(tasks, datasets.visits),
        notes=datasets.notes,
    )
    if not timed:
        return plan
    seconds = _time_steps(recipe, model, datasets, schedule, setup.backward, setup.optimizer)
    seconds += _time_predictions(recipe, model, datasets, schedule)
    return replace(plan, seconds=seconds, memory=peak_gigabytes())


def _describe_phase(recipe: Recipe, model: ManyHeads, phase: Phase, cache: FrozenCache) -> dict[str, Any]:
    cached = cache.entries(phase)
    return {
        "phase": phase.name,
        "steps": phase.end - phase.first,
        "rounds per epoch": phase.sampler.epochs[0],
        "epochs": len(phase.epoch_ends),
        "sampler": (phase.settings.sampler or recipe.sampler).name,
        "trains": str(phase.trainable),
        "learning_rate": phase.peak,
        "schedule": f"{phase.shape} after a warm-up of {phase.warmup:.0%}" if phase.warmup else phase.shape,
        "keeps": cache.describe(cached) if cached else "",
        "combines": describe_combination(recipe, model, phase),
        "regularises": describe_regularisers(model, phase),
        "an epoch": phase.sampler.epoch_description,
    }


def _groups(recipe: Recipe, model: ManyHeads, schedule: Schedule) -> list[dict[str, Any]]:
    """What learns in each phase, by groups with their peak rates; and how much does not."""
    groups: list[dict[str, Any]] = []
    total = sum(parameter.numel() for parameter in model.parameters())
    for phase in schedule.phases:
        set_trainable(model, phase, recipe.training.frozen_dropout)
        training = recipe.training.model_copy(update={"learning_rate": phase.peak})
        for group in parameter_groups(model, training, [phase.combination.scalarizer]):
            groups.append(
                {
                    "phase": phase.name,
                    "group": group["name"],
                    "parameters": sum(parameter.numel() for parameter in group["params"]),
                    "learning_rate": group["lr"],
                    "decay": group["weight_decay"],
                }
            )
        learning = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        if learning < total:
            frozen = {"phase": phase.name, "group": FROZEN, "parameters": total - learning}
            groups.append({**frozen, "learning_rate": 0.0, "decay": 0.0})
    return groups


def short_plan(model: ManyHeads, datasets: Datasets, schedule: Schedule) -> list[str]:
    """How often each task will be seen, and advice: what `train` says before it starts. Long runs are not counted."""
    if schedule.steps > COUNTED_STEPS:
        return ["`manyheads plan` counts how often each task will be seen"]
    tasks = _count(model, datasets, schedule)
    passes = ", ".join(f"{task.task} {task.passes:.2f}" for task in tasks)
    return [f"passes over each task: {passes}", *(f"advice: {advice}" for advice in _advise(tasks, datasets.visits))]


def _count(model: ManyHeads, datasets: Datasets, schedule: Schedule) -> list[TaskPlan]:
    """By going through every round of the run: what a sampler says of itself is not taken on trust."""
    row_counts = {name: np.zeros(len(data), dtype=np.int64) for name, data in datasets.train.items()}
    batches = dict.fromkeys(row_counts, 0)
    examples_in_epoch = dict.fromkeys(row_counts, 0)
    largest_epoch = dict.fromkeys(row_counts, 0)
    epoch_ends = schedule.epoch_ends
    last_steps = set(epoch_ends)
    for step in range(schedule.steps):
        for batch in batches_of(datasets.usable(schedule.rounds(step))):
            np.add.at(row_counts[batch.task], batch.indices, 1)  # a batch may hold a row twice
            batches[batch.task] += 1
            examples_in_epoch[batch.task] += len(batch.indices)
        if step + 1 in last_steps:
            for name, count in examples_in_epoch.items():
                largest_epoch[name] = max(largest_epoch[name], count)
            examples_in_epoch = dict.fromkeys(row_counts, 0)
    examples = {name: int(counts.sum()) for name, counts in row_counts.items()}
    all_batches, all_examples = max(1, sum(batches.values())), max(1, sum(examples.values()))
    plans = []
    for name in model.tasks:
        data, batch_size, counts = datasets.train[name], schedule.batch_sizes[name], row_counts[name]
        trained_on = datasets.trained_on(name)
        rows = int(trained_on.sum())
        one_pass = rows * datasets.pass_size(name) / len(data)  # of rows that the task learns from
        plans.append(
            TaskPlan(
                task=name,
                examples=rows,
                batch_size=batch_size,
                batches_per_pass=-(-datasets.pass_size(name) // batch_size),
                batches=batches[name],
                batches_per_epoch=batches[name] / len(epoch_ends),
                passes=examples[name] / one_pass,
                passes_per_epoch=largest_epoch[name] / one_pass,
                most_seen=int(counts.max()),
                never_seen=int((counts[trained_on] == 0).sum()),
                share_of_batches=batches[name] / all_batches,
                share_of_examples=examples[name] / all_examples,
            )
        )
    return plans


def _advise(tasks: list[TaskPlan], weighted: Collection[str]) -> list[str]:
    """`weighted`: tasks whose sources have weights, a whole pass over which may leave rows to the next."""
    advice, unseen = [], []
    for task in tasks:
        if not task.batches:
            advice.append(f"{task.task} is never trained on: no phase has it, or the run is too short.")
        elif task.never_seen and not (task.task in weighted and task.batches >= task.batches_per_pass):
            unseen.append(f"{task.task} {task.never_seen:,} of {task.examples:,}")
        if task.passes_per_epoch > OFTEN:
            advice.append(
                f"{task.task} is passed {task.passes_per_epoch:.1f} times in an epoch, which invites over-fitting "
                "(paper E saw it at 16). Samplers `capped`, `full-data` or `proportional` repeat it less."
            )
    if unseen:
        advice.append(
            f"examples that never come: {', '.join(unseen)}. A larger training.budget, or more training.epochs, "
            "would use them."
        )
    return advice


# --- how long ----------------------------------------------------------------------------------------------------


def _time_steps(
    recipe: Recipe,
    model: ManyHeads,
    datasets: Datasets,
    schedule: Schedule,
    backward: Backward,
    optimizer: torch.optim.Optimizer,
) -> float:
    """Seconds for all steps, from a few of them; the one with most tokens goes first, for its memory."""
    steps = generator(recipe.seed, "plan").permutation(schedule.steps).tolist()
    largest = max(steps[:LOOKED_AT], key=lambda step: _tokens(datasets, schedule, step))
    seconds: list[float] = []
    for step in [largest, *sorted(steps[:TIMED_STEPS])]:
        phase = schedule.phase(step)
        schedule.begin(phase, model)
        set_trainable(model, phase, recipe.training.frozen_dropout)
        for group in optimizer.param_groups:
            group["lr"] = 0.0  # the work of a step without its effect
        rounds = datasets.usable(schedule.rounds(step))
        began = time.monotonic()
        backward.step(rounds, phase.combination, (recipe.seed, step), phase.regularisers)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.monotonic() - began)
    return float(np.mean(seconds[1:])) * schedule.steps  # the first one warms up


def _time_predictions(recipe: Recipe, model: ManyHeads, datasets: Datasets, schedule: Schedule) -> float:
    """Seconds for the probe and all evaluations, from a few examples."""
    evaluations = len({*schedule.epoch_ends, *schedule.pass_ends})
    if recipe.evaluate.every_steps:
        evaluations += schedule.steps // recipe.evaluate.every_steps
    tokens = evaluated_tokens(recipe, datasets, evaluations) + probe_work(recipe, model, datasets)
    return tokens * time_prediction(recipe, model, datasets)


def _tokens(datasets: Datasets, schedule: Schedule, step: int) -> int:
    tokens = 0
    for batch in batches_of(datasets.usable(schedule.rounds(step))):
        for column in datasets.train[batch.task].texts:
            tokens += int(column.lengths_of(batch.indices).sum())
    return tokens


def peak_gigabytes() -> float:
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e9
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / 1e6 if sys.platform != "darwin" else kilobytes / 1e9  # there it is bytes


# --- in words ----------------------------------------------------------------------------------------------------


def describe_plan(plan: Plan) -> str:
    """The sentences below the table."""
    lines = [_describe_planned_phase(phase) for phase in plan.phases]
    for group in plan.groups:
        lines.append(_describe_group(group, several_phases=len(plan.phases) > 1))
    for phase in plan.phases:
        if phase["keeps"]:
            lines.append(f"{phase['keeps']}; the time below is without that")
    lines.append(f"{counted(plan.steps, 'step')} in all")
    if plan.seconds is not None:
        lines.append(
            f"about {duration(plan.seconds)} here, probe and evaluations included, and {plan.memory:.1f} GB at the "
            f"most (from {TIMED_STEPS} timed steps)"
        )
    lines += [f"note: {note}" for note in plan.notes]
    lines += [f"advice: {advice}" for advice in plan.advice]
    return "\n".join(lines)


def _describe_planned_phase(phase: dict[str, Any]) -> str:
    regularised = f", regularised by {phase['regularises']}" if phase["regularises"] else ""
    return (
        f"phase {phase['phase']}: {counted(phase['steps'], 'step')}, {counted(phase['epochs'], 'epoch')}, "
        f"{counted(phase['rounds per epoch'], 'round')} each, {phase['sampler']}, trains {phase['trains']}, "
        f"learning rate {phase['learning_rate']:g} ({phase['schedule']}), {phase['combines']}{regularised}. "
        f"{phase['an epoch']}"
    )


def _describe_group(group: dict[str, Any], several_phases: bool) -> str:
    where = f"parameters of phase {group['phase']}" if several_phases else "parameters"
    line = f"{where}: {group['group']}: {group['parameters']:,}"
    if group["group"] == FROZEN:
        return line
    return f"{line} at rate {group['learning_rate']:g}, decay {group['decay']:g}"
