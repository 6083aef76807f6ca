"""What a run says of itself before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from manyheads.config.training import CombineSettings
from manyheads.training.gradients.task_gradients import shared_parameters
from manyheads.training.schedule import Phase

if TYPE_CHECKING:
    from manyheads.training.setup import TrainingJob

LOOKED_AT = 50  # steps, to see whether tasks are drawn together


def announce(job: TrainingJob) -> None:
    """Tasks with their data and parts, what was noted about the data, how long it will train and how."""
    batch_sizes = job.batch_sizes
    said: set[Any] = set()
    for name, task in job.model.tasks.items():
        parts = ", ".join(part.name for part in (task.encoding, task.pooling, task.head, task.loss))
        own = f"the head of {task.head_of}" if task.head_of else parts
        if name not in job.dev:
            job.reporter.say(f"task {name}: left out (training.active_tasks)")
            continue
        dev = int(job.dev[name].examples.labelled.sum())
        job.reporter.say(f"task {name}: {task.train_examples:,} train, {dev:,} dev, batch {batch_sizes[name]} ({own})")
        job.reporter.say(f"  {task.kind.summary(task)}")
    for names in sorted({data.row_group for data in job.train.values() if data.row_group}):
        together = any(_together(job, step, set(names.split("+"))) for step in range(min(job.steps, LOOKED_AT)))
        drawn = "drawn together and encoded once"
        if not together:
            drawn = "but are not drawn together, because of the sampler or different batch sizes"
        job.reporter.say(f"tasks {names.replace('+', ', ')} read the same rows: {drawn}")
    for note in job.notes:
        job.reporter.say(f"note: {note}")
    ends = job.schedule.epoch_ends
    cut = "a part of " if job.steps < job.schedule.whole else ""
    length = f"{job.steps:,} steps, {cut}{len(ends)} epoch{'s' if len(ends) > 1 else ''}"
    if cut and len(job.recipe.phases or []) > len(job.schedule.phases):
        length += ", later phases left out by training.max_steps"
    job.reporter.say(f"{' → '.join(_describe_phases(job))}: {length} → {job.folder}")
    for epoch_description in dict.fromkeys(phase.sampler.epoch_description for phase in job.schedule.phases):
        job.reporter.say(f"  {epoch_description}")
    for phase in job.schedule.phases:
        settings = phase.settings.combine or job.recipe.combine
        if settings != CombineSettings() and phase.combination not in said:
            job.reporter.say(f"  {describe_combination(job, phase)}")
        if phase.regularisers and phase.regularisers not in said:
            job.reporter.say(f"  regularised by {describe_regularisers(job, phase)}")
        said |= {phase.combination, phase.regularisers}


def _describe_phases(job: TrainingJob) -> list[str]:
    """'batch-round-robin', or with phases 'warm (heads; batch-round-robin)'."""
    samplers = [(phase, (phase.settings.sampler or job.recipe.sampler).name) for phase in job.schedule.phases]
    if job.recipe.phases is None:
        return [sampler for _, sampler in samplers]
    return [f"{phase.name} ({phase.trainable}; {sampler})" for phase, sampler in samplers]


def _together(job: TrainingJob, step: int, names: set[str]) -> bool:
    """Whether some round of a step has the same rows for several of these tasks."""
    for batches in job.schedule.rounds(step):
        drawn = [batch.rows.tolist() for batch in batches if batch.task in names]
        if len(drawn) > 1 and drawn[0] == drawn[1]:
            return True
    return False


def describe_regularisers(job: TrainingJob, phase: Phase) -> str:
    return ", ".join(one.describe(job.model) for one in phase.regularisers)


def describe_combination(job: TrainingJob, phase: Phase) -> str:
    """'losses by uncertainty, gradients by pcgrad: 3 copies of the shared gradient, 90 MB each'."""
    settings = phase.settings.combine or job.recipe.combine
    losses = f"losses by {settings.losses.name}"
    copies = len(phase.settings.tasks or job.model.tasks)
    if settings.gradients is None:
        size = sum(one.numel() for one in shared_parameters(job.model).values()) * 4 / 1e6
        measured = copies > 1 and job.recipe.training.conflicts > 0
        held = f" (measuring conflicts holds {copies} copies of the shared gradient, at most {size:,.0f} MB each)"
        return losses + (held if measured else "")
    chosen = shared_parameters(job.model, settings.layers).values()
    size = sum(one.numel() for one in chosen) * (2 if settings.copies == "bf16" else 4) / 1e6
    copied = f"{copies} copies of the shared gradient, at most {size:,.0f} MB each"
    where = f" in layers {', '.join(map(str, settings.layers))}" if settings.layers else ""
    return f"{losses}, gradients by {settings.gradients.name}{where}: {copied}"
