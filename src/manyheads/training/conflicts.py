"""How far the tasks' gradients agree: measured while training, at a bounded cost.

Measuring takes the batches of a step once more, task by task, with dropout of its own: it changes nothing in the
training. Where an aggregator makes task gradients anyway, they are measured at no cost.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.samplers import Batch
from manyheads.seeding import generator
from manyheads.training.datasets import Round, batches_of
from manyheads.training.gradients.backward import Backward, Step
from manyheads.training.gradients.task_gradients import layer_name
from manyheads.training.schedule import Phase
from manyheads.training.state import Progress

FREE_EVERY = 10  # steps, where measuring costs nothing but lines in the log


@dataclass(frozen=True)
class Measured:
    """The task gradients of one step, or that the step itself will have them."""

    tasks: list[str]
    gramians: dict[str, Tensor] | None
    seconds: float

    def record(self, step: Step, phase: Phase) -> dict[str, Any]:
        """For the log: per layer group each task's norm, and the cosine of each pair; and what the step itself did."""
        tasks, gramians = self.tasks, self.gramians
        if gramians is None:
            tasks, gramians = list(step.weights), step.gramians
        record: dict[str, Any] = {"event": "conflicts", "tasks": tasks, "trained": list(step.losses)}
        if phase.combination.aggregator is not None:
            layers = phase.combination.layers
            record["surgery"] = step.weights
            record["operated"] = list(gramians) if layers is None else [layer_name(layer) for layer in layers]
        record["norms"] = {group: _norms(gramian) for group, gramian in gramians.items()}
        record["cosines"] = {group: _cosines(gramian) for group, gramian in gramians.items()}
        record["took"] = round(self.seconds, 3)
        return record


class ConflictMeter:
    """Measures so often that it takes at most a share of the training's examples. The count is kept in checkpoints."""

    def __init__(
        self, backward: Backward, train: dict[str, TaskTokens], batch_sizes: dict[str, int], share: float, seed: int
    ) -> None:
        self.backward, self.train, self.batch_sizes = backward, train, batch_sizes
        self.share, self.seed = share, seed
        self.measured_examples = 0

    def state_dict(self) -> dict[str, int]:
        return {"measured_examples": self.measured_examples}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.measured_examples = state.get("measured_examples", state.get("measured", 0))

    def measure(
        self, phase: Phase, rounds: list[Round], progress: Progress, paused: Collection[str]
    ) -> Measured | None:
        """The task gradients of this step, if it is time."""
        tasks = [task for task in phase.settings.tasks or self.backward.model.tasks if task not in paused]
        if not self.share or len(tasks) < 2 or not self.backward.shares(phase.trainable):
            return None
        batches = batches_of(rounds)
        drawn = {batch.task for batch in batches}
        absent = [task for task in tasks if task not in drawn]
        step_has_gramians = phase.combination.aggregator is not None and phase.combination.layers is None
        if step_has_gramians and not absent:
            if self.share >= 1 or progress.step % FREE_EVERY == FREE_EVERY - 1:
                return Measured(tasks, None, 0.0)
        elif self._affordable(batches, absent, progress):
            return self._measure_with(absent, phase, rounds, progress.step)
        return None

    def _measure_with(self, absent: list[str], phase: Phase, rounds: list[Round], step: int) -> Measured | None:
        """The gradients of a step's tasks, and of some that it does not have."""
        began = time.monotonic()
        drawn_batches = [self._draw(task, step) for task in absent]
        all_tasks = [*rounds[:-1], [*rounds[-1], *drawn_batches]]  # in no round of their own, which would count as one
        gramians = self.backward.measure(all_tasks, phase.combination, (self.seed, step), phase.regularisers)
        if not gramians:
            return None
        order = list(dict.fromkeys(batch.task for batch in batches_of(all_tasks)))
        return Measured(order, gramians, time.monotonic() - began)

    def _affordable(self, batches: list[Batch], absent: list[str], progress: Progress) -> bool:
        """Whether measuring now keeps to the share; if so it is counted."""
        step_examples = sum(len(batch.indices) for batch in batches)
        allowed = self.share * (sum(progress.examples.values()) + step_examples) - self.measured_examples
        needed = step_examples + sum(self.batch_sizes[task] for task in absent)
        if needed > allowed:
            return False
        self.measured_examples += needed
        return True

    def _draw(self, task: str, step: int) -> Batch:
        """A batch of a task that the step does not have, drawn for this purpose alone."""
        rows = self.train[task].examples.labelled_rows
        size = min(len(rows), self.batch_sizes[task])
        return Batch(task, generator(self.seed, step, "conflicts", task).choice(rows, size=size, replace=False))


def _norms(gramian: Tensor) -> list[float]:
    return [_short(norm) for norm in gramian.diagonal().clamp(min=0).sqrt().tolist()]


def _cosines(gramian: Tensor) -> list[float | None]:
    """Of each pair of tasks; None where one of the two has no gradient in this layer group."""
    cosines: list[float | None] = []
    for i, j in combinations(range(len(gramian)), 2):
        size = float(torch.sqrt(gramian[i, i] * gramian[j, j]))
        cosines.append(_short(float(gramian[i, j]) / size) if size > 0 else None)
    return cosines


def _short(value: float) -> float:
    return float(f"{value:.6g}")
