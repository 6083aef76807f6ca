"""What a recipe will do, before it does it: how often each task is seen, what an epoch is, how long it will take."""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from manyheads.config.recipe import Recipe
from manyheads.console import Reporter, duration
from manyheads.inference.predict import predict_tasks
from manyheads.parts.samplers import Batch
from manyheads.seeding import generator
from manyheads.training.frozen_cache import describe_frozen_cache, worth_caching
from manyheads.training.optim import parameter_groups
from manyheads.training.schedule import set_trainable
from manyheads.training.setup import TrainingJob, assemble
from manyheads.training.summary import describe_combination, describe_regularisers

COUNTED_STEPS = 20_000  # that `train` goes through before it starts, which takes about a second
TIMED_STEPS = 6  # after one that warms up
LOOKED_AT = 200  # steps, of which the one with most tokens is run for its memory
FROZEN = "frozen"  # the group of what does not learn
TIMED_EXAMPLES = 64  # of dev
OFTEN = 5.0  # passes over a task in one epoch; paper D caps there, paper E over-fitted at 16


@dataclass(frozen=True)
class TaskPlan:
    """How one task fares over the whole run."""

    task: str
    examples: int  # labelled train rows
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
    seconds: float | None = None  # estimated, evaluations included
    memory: float | None = None  # gigabytes at the most, as measured

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def make_plan(recipe: Recipe, reporter: Reporter | None = None, timed: bool = True) -> Plan:
    """The plan of a recipe; `timed` also runs a few steps on the real encoder."""
    job = assemble(recipe, recipe.folder, reporter or Reporter(quiet=True))
    tasks = _count(job)
    phases = [
        {
            "phase": phase.name,
            "steps": phase.end - phase.first,
            "rounds per epoch": phase.sampler.epochs[0],
            "epochs": len(phase.epoch_ends),
            "sampler": (phase.settings.sampler or recipe.sampler).name,
            "trains": str(phase.trainable),
            "learning_rate": phase.peak,
            "schedule": f"{phase.shape} after a warm-up of {phase.warmup:.0%}" if phase.warmup else phase.shape,
            "keeps": describe_frozen_cache(job, kept) if (kept := worth_caching(job, phase)) else "",
            "combines": describe_combination(job, phase),
            "regularises": describe_regularisers(job, phase),
            "an epoch": phase.sampler.epoch_description,
        }
        for phase in job.schedule.phases
    ]
    seconds, memory = _time(job) if timed else (None, None)
    epochs = len(job.schedule.epoch_ends)
    return Plan(tasks, phases, job.steps, epochs, _groups(job), _advise(tasks), job.notes, seconds, memory)


def _groups(job: TrainingJob) -> list[dict[str, Any]]:
    """What learns in each phase, by groups with their peak rates; and how much does not."""
    found: list[dict[str, Any]] = []
    whole = sum(one.numel() for one in job.model.parameters())
    for phase in job.schedule.phases:
        set_trainable(job.model, phase, job.recipe.training.frozen_dropout)
        training = job.recipe.training.model_copy(update={"learning_rate": phase.peak})
        groups = [
            {
                "phase": phase.name,
                "group": group["name"],
                "parameters": sum(one.numel() for one in group["params"]),
                "learning_rate": group["lr"],
                "decay": group["weight_decay"],
            }
            for group in parameter_groups(job.model, training, [phase.combination.scalarizer])
        ]
        learns = sum(one.numel() for one in job.model.parameters() if one.requires_grad)
        still = {"phase": phase.name, "group": FROZEN, "parameters": whole - learns, "learning_rate": 0.0, "decay": 0.0}
        found += [*groups, *([still] if whole > learns else [])]
    return found


def short_plan(job: TrainingJob) -> list[str]:
    """How often each task will be seen, and advice: what `train` says before it starts. Long runs are not counted."""
    if job.steps > COUNTED_STEPS:
        return ["`manyheads plan` counts how often each task will be seen"]
    tasks = _count(job)
    seen = ", ".join(f"{one.task} {one.passes:.2f}" for one in tasks)
    return [f"passes over each task: {seen}", *(f"advice: {one}" for one in _advise(tasks))]


def _count(job: TrainingJob) -> list[TaskPlan]:
    """By going through every round of the run: what a sampler says of itself is not taken on trust."""
    seen = {name: np.zeros(len(data), dtype=np.int64) for name, data in job.train.items()}
    batches = dict.fromkeys(seen, 0)
    in_epoch = dict.fromkeys(seen, 0)
    most_in_epoch = dict.fromkeys(seen, 0)
    ends = set(job.schedule.epoch_ends)
    for step in range(job.steps):
        for batch in (batch for one in job.rounds_of(step) for batch in one):
            seen[batch.task][batch.rows] += 1
            batches[batch.task] += 1
            in_epoch[batch.task] += len(batch.rows)
        if step + 1 in ends or step + 1 == job.steps:
            most_in_epoch = {name: max(most_in_epoch[name], count) for name, count in in_epoch.items()}
            in_epoch = dict.fromkeys(seen, 0)
    examples = {name: int(counts.sum()) for name, counts in seen.items()}
    return [
        TaskPlan(
            task=name,
            examples=task.train_examples,
            batch_size=job.batch_sizes[name],
            batches_per_pass=-(-len(job.train[name]) // job.batch_sizes[name]),
            batches=batches[name],
            batches_per_epoch=batches[name] / len(job.schedule.epoch_ends),
            passes=examples[name] / task.train_examples,
            passes_per_epoch=most_in_epoch[name] / task.train_examples,
            most_seen=int(seen[name].max()),
            never_seen=int((seen[name][job.train[name].examples.labelled] == 0).sum()),
            share_of_batches=batches[name] / max(1, sum(batches.values())),
            share_of_examples=examples[name] / max(1, sum(examples.values())),
        )
        for name, task in job.model.tasks.items()
    ]


def _advise(tasks: list[TaskPlan]) -> list[str]:
    found = []
    for one in tasks:
        if not one.batches:
            found.append(f"{one.task} is never trained on: no phase has it, or the run is too short.")
        elif one.never_seen:
            found.append(
                f"{one.task} is not seen in full: {one.never_seen:,} of {one.examples:,} examples never come. More "
                "epochs, or a sampler that ends with this task, would use them."
            )
        if one.passes_per_epoch > OFTEN:
            found.append(
                f"{one.task} is passed {one.passes_per_epoch:.1f} times in an epoch, which invites over-fitting "
                "(paper E saw it at 16). Samplers `capped`, `full-data` or `proportional` repeat it less."
            )
    return found


def _time(job: TrainingJob) -> tuple[float, float]:
    """Seconds for the run, and the most memory in gigabytes, from a few steps and a little of dev."""
    recipe = job.recipe
    some = generator(recipe.seed, "plan").permutation(job.steps).tolist()
    largest = max(some[:LOOKED_AT], key=lambda step: _tokens(job, step))
    taken: list[float] = []
    for number, step in enumerate([largest, *sorted(some[:TIMED_STEPS])]):
        phase = job.schedule.phase(step)
        job.schedule.begin(phase, job.model)
        set_trainable(job.model, phase, recipe.training.frozen_dropout)
        for group in job.optimizer.param_groups:
            group["lr"] = 0.0  # the work of a step without its effect
        rounds: list[list[Batch]] = job.rounds_of(step)
        began = time.monotonic()
        job.backward.step(rounds, phase.combination, (recipe.seed, step), phase.regularisers)
        job.optimizer.step()
        job.optimizer.zero_grad(set_to_none=True)
        if number:  # the first one warms up, and takes the most memory
            taken.append(time.monotonic() - began)
    began = time.monotonic()
    rows = {name: some[:TIMED_EXAMPLES] for name, some in job.watched_rows.items()}
    predict_tasks(job.model, job.watched, recipe.evaluate.tokens_per_pass, rows)
    each = (time.monotonic() - began) / max(1, sum(map(len, rows.values())))
    often = job.steps // recipe.evaluate.every_steps if recipe.evaluate.every_steps else 0
    while_training = (len(job.schedule.epoch_ends) + often) * sum(map(len, job.watched_rows.values()))
    evaluated = while_training + sum(map(len, job.dev.values())) + sum(map(len, job.test.values()))
    return float(np.mean(taken)) * job.steps + each * evaluated, peak_gigabytes()


def _tokens(job: TrainingJob, step: int) -> int:
    batches = [batch for one in job.rounds_of(step) for batch in one]
    return sum(int(column.lengths_of(batch.rows).sum()) for batch in batches for column in job.train[batch.task].texts)


def peak_gigabytes() -> float:
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e9
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / 1e6 if sys.platform != "darwin" else kilobytes / 1e9  # there it is bytes


def describe_plan(plan: Plan) -> str:
    """The sentences below the table."""
    lines = [
        f"phase {one['phase']}: {one['steps']:,} steps, {one['epochs']} epoch{'s' if one['epochs'] > 1 else ''}, "
        f"{one['rounds per epoch']:,} rounds each, {one['sampler']}, trains {one['trains']}, "
        f"learning rate {one['learning_rate']:g} ({one['schedule']}), "
        f"{one['combines']}{', regularised by ' + one['regularises'] if one['regularises'] else ''}. "
        f"{one['an epoch']}"
        for one in plan.phases
    ]
    several = len(plan.phases) > 1
    for one in plan.groups:
        where = f"parameters of phase {one['phase']}" if several else "parameters"
        rate = "" if one["group"] == FROZEN else f" at rate {one['learning_rate']:g}, decay {one['decay']:g}"
        lines.append(f"{where}: {one['group']}: {one['parameters']:,}{rate}")
    kept = [one["keeps"] for one in plan.phases if one["keeps"]]
    lines += [f"{one}; the time below is without that" for one in kept]
    lines.append(f"{plan.steps:,} steps in all")
    if plan.seconds is not None:
        lines.append(
            f"about {duration(plan.seconds)} here, evaluations included, and {plan.memory:.1f} GB at the most "
            f"(from {TIMED_STEPS} timed steps)"
        )
    lines += [f"note: {note}" for note in plan.notes]
    lines += [f"advice: {one}" for one in plan.advice]
    return "\n".join(lines)
