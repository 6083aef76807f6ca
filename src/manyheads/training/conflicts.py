"""How far the tasks' gradients agree: measured while training, at a bounded cost.

Measuring takes the batches of a step once more, task by task, with dropout of its own: it changes nothing in the
training. Where an aggregator makes task gradients anyway, they are measured for nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from manyheads.parts.samplers import Batch
from manyheads.seeding import generator
from manyheads.training.gradients.backward import Step
from manyheads.training.gradients.task_gradients import layer_name

if TYPE_CHECKING:
    from manyheads.training.schedule import Phase
    from manyheads.training.setup import TrainingJob


FREE_EVERY = 10  # steps, where measuring costs nothing but lines in the log


@dataclass(frozen=True)
class Measured:
    """The task gradients of one step, or that the step itself will have them."""

    tasks: list[str]
    gramians: dict[str, Tensor] | None
    seconds: float

    def record(self, done: Step, phase: Phase) -> dict[str, Any]:
        """For the log: per layer group each task's norm, and the cosine of each pair; and what the step itself did."""
        gramians = done.gramians if self.gramians is None else self.gramians
        tasks = list(done.weights) if self.gramians is None else self.tasks
        aggregator, layers = phase.combination.aggregator, phase.combination.layers
        surgery = {}
        if aggregator is not None:
            operated = list(gramians) if layers is None else [layer_name(layer) for layer in layers]
            surgery = {"surgery": done.weights, "operated": operated}
        norms = {group: gramian.diagonal().clamp(min=0).sqrt() for group, gramian in gramians.items()}
        return {
            "event": "conflicts",
            "tasks": tasks,
            "trained": list(done.losses),
            **surgery,
            "norms": {group: [_short(float(one)) for one in values] for group, values in norms.items()},
            "cosines": {
                group: [_cosine(gramian, i, j) for i, j in combinations(range(len(tasks)), 2)]
                for group, gramian in gramians.items()
            },
            "took": round(self.seconds, 3),
        }


def measure_conflicts(job: TrainingJob, phase: Phase, rounds: list[list[Batch]]) -> Measured | None:
    """The task gradients of this step, if it is time: so often that the share of work that is allowed is kept."""
    progress, share = job.progress, job.recipe.training.conflicts
    tasks = [task for task in phase.settings.tasks or job.model.tasks if task not in progress.paused]
    if not share or len(tasks) < 2 or not job.backward.shares(phase.trainable):
        return None
    here = sum(len(batch.rows) for one in rounds for batch in one)
    allowed = share * (sum(progress.examples.values()) + here) - progress.measured
    absent = [task for task in tasks if task not in {batch.task for one in rounds for batch in one}]
    needed = here + sum(job.batch_sizes[task] for task in absent)
    if phase.combination.aggregator is not None and phase.combination.layers is None and not absent:
        free = share >= 1 or progress.step % FREE_EVERY == FREE_EVERY - 1
        return Measured(tasks, None, 0.0) if free else None
    if needed > allowed:
        return None
    progress.measured += needed
    began = time.monotonic()
    seeds = (job.recipe.seed, progress.step)
    wanted = [*rounds, [_some(job, task) for task in absent]]
    gramians = job.backward.measure(wanted, phase.combination, seeds, phase.regularisers)
    order = list(dict.fromkeys(batch.task for one in wanted for batch in one))
    return Measured(order, gramians, time.monotonic() - began) if gramians else None


def _some(job: TrainingJob, task: str) -> Batch:
    """A batch of a task that the step does not have, drawn for this purpose alone."""
    rows = job.train[task].examples.labelled_rows
    drawn = generator(job.recipe.seed, job.progress.step, "conflicts", task)
    return Batch(task, drawn.choice(rows, size=min(len(rows), job.batch_sizes[task]), replace=False))


def _cosine(gramian: Tensor, i: int, j: int) -> float | None:
    """None where one of the two has no gradient here."""
    size = float(torch.sqrt(gramian[i, i] * gramian[j, j]))
    return _short(float(gramian[i, j]) / size) if size > 0 else None


def _short(value: float) -> float:
    return float(f"{value:.6g}")
