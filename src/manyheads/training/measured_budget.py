"""A budget in minutes as examples: a few steps are timed before training, on real batches, and leave nothing behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

from manyheads.config.recipe import Recipe
from manyheads.config.training import Budget
from manyheads.model.multitask import ManyHeads
from manyheads.training.datasets import Datasets, batches_of
from manyheads.training.distributed import Processes
from manyheads.training.gradients.backward import Backward
from manyheads.training.schedule import Schedule
from manyheads.training.teaching.teaching import Teaching
from manyheads.training.weight_averaging import models_evaluated

TIMED_STEPS = 6  # after one that warms up
FORWARD_SHARE = 1 / 3  # of the time that training on an example takes, for predicting it
PLANNED_SHARE = 0.95  # of the minutes; the optimizer, the log and checkpoints need the rest


def with_examples(recipe: Recipe, examples: int) -> Recipe:
    """The recipe with a budget of examples."""
    training = recipe.training.model_copy(update={"budget": Budget(examples=examples)})
    return recipe.model_copy(update={"training": training})


def measure_budget(
    recipe: Recipe,
    model: ManyHeads,
    datasets: Datasets,
    schedule: Schedule,
    autocast: Callable[[], AbstractContextManager[None]],
    processes: Processes,
    teaching: Teaching | None,
) -> int:
    """How many examples n fit into the minutes T: n·t + f·t·m = 0.95·T, at least one round.

    t: seconds per example, of the first rounds of `schedule`; m: examples that are predicted besides, by evaluations,
    the probe and the end, f = 1/3 of the work of training on one. Nothing that is random or learnt moves.
    """
    budget = recipe.training.budget
    assert budget is not None
    assert budget.minutes is not None
    seconds_per_example = _time_steps(recipe, model, datasets, schedule, autocast, processes, teaching)
    seconds = PLANNED_SHARE * 60 * budget.minutes
    predicted = predicted_examples(recipe, datasets, epochs=1)
    one_pass = sum(map(datasets.pass_size, datasets.train))
    examples = 0.0
    for _ in range(3):  # more epochs are evaluated more often
        examples = seconds / seconds_per_example - FORWARD_SHARE * predicted
        predicted = predicted_examples(recipe, datasets, epochs=max(1, round(examples / one_pass)))
    smallest = recipe.training.batch_size * recipe.training.accumulate
    return int(processes.tell(max(smallest, round(examples))))


def _time_steps(
    recipe: Recipe,
    model: ManyHeads,
    datasets: Datasets,
    schedule: Schedule,
    autocast: Callable[[], AbstractContextManager[None]],
    processes: Processes,
    teaching: Teaching | None,
) -> float:
    """Seconds of a forward and backward pass, per example."""
    phase = schedule.phases[0]
    backward = Backward(model, datasets.train, recipe.training.tokens_per_pass, autocast, processes)
    backward.teaching = teaching
    examples, seconds = 0, 0.0
    for step in range(min(1 + TIMED_STEPS, schedule.steps)):
        rounds = datasets.usable(schedule.rounds(step))
        began = time.monotonic()
        backward.step(rounds, phase.combination, (recipe.seed, step), phase.regularisers)
        if step or schedule.steps == 1:
            seconds += time.monotonic() - began
            examples += sum(len(batch.indices) for batch in batches_of(rounds))
        _forget_gradients(model, phase.combination)
    return seconds / max(1, examples)


def _forget_gradients(*modules: torch.nn.Module) -> None:
    for module in modules:
        module.zero_grad(set_to_none=True)


def predicted_examples(recipe: Recipe, datasets: Datasets, epochs: int) -> int:
    """m, of so many epochs: every evaluation is of averaged weights too, where there are any."""
    selection = sum(len(rows) for rows in datasets.selection_rows.values())
    dev = sum(len(tokens) for tokens in datasets.dev.values())
    evaluations = epochs
    predicted = 0
    if recipe.training.probe:
        evaluations += 1  # of what the probe begins with
        predicted += selection + dev + sum(len(tokens) for tokens in datasets.train.values())
    return predicted + models_evaluated(recipe) * (evaluations * selection + dev)
