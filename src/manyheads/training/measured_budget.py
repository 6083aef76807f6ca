"""A budget in minutes as examples: a few passes are timed before training, on real batches; they leave nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch

from manyheads.config.recipe import Recipe
from manyheads.config.training import Budget
from manyheads.console import duration
from manyheads.inference.evaluate import fixed_subset
from manyheads.inference.predict import predict_tasks
from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.training.datasets import Datasets, batches_of
from manyheads.training.distributed import Processes
from manyheads.training.gradients.backward import Backward
from manyheads.training.probe import probe_tokens_read
from manyheads.training.schedule import Schedule
from manyheads.training.teaching.teaching import Teaching
from manyheads.training.weight_averaging import models_evaluated

TIMED_STEPS = 6  # after one that warms up
TIMED_EXAMPLES = 16  # of each task, for predicting
SOLVING = 1.25  # what the probe takes, as a multiple of its passes: heads are solved on what they give
PROBE_SHARE = 0.4  # of the minutes that evaluations leave, at most
LEAST_PROBE_TOKENS = 5_000
PLANNED_SHARE = 0.95  # of the minutes; the log and checkpoints need the rest


@dataclass(frozen=True)
class MeasuredBudget:
    """What fits into the minutes."""

    examples: int
    probe_tokens: int  # of each task
    other_seconds: float  # for the probe and all evaluations
    largest_dev: str  # the task whose dev has the most tokens

    def describe(self, minutes: float) -> str:
        other = f"{duration(self.other_seconds)} for the probe and evaluations"
        if self.other_seconds > PLANNED_SHARE * 60 * minutes:
            return (
                f"warning: budget: {minutes:g} minutes are too few on this machine: it takes {other} alone. Fewer dev "
                f"rows would take less, above all tasks.{self.largest_dev}.max_dev. It trains on {self.examples:,} "
                "examples."
            )
        return f"budget: {minutes:g} minutes are about {self.examples:,} examples on this machine, and {other}"

    def written_into(self, recipe: Recipe) -> Recipe:
        training = recipe.training.model_copy(update={"probe_tokens": self.probe_tokens})
        return with_examples(recipe.model_copy(update={"training": training}), self.examples)


@dataclass(frozen=True)
class Speed:
    """What was timed, in seconds."""

    example: float  # of training
    token: float  # of predicting


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
) -> MeasuredBudget:
    """How many examples n fit into the minutes T: n·t + m·f + 1.25·p·f = 0.95·T, at least one round.

    t: seconds per example, of the first rounds of `schedule` and the optimizer; f: seconds per token that is predicted;
    m: tokens of all evaluations; p: tokens that the probe reads, halved until that takes at most 40 % of 0.95·T − m·f.
    Nothing that is random or learnt moves.
    """
    budget = recipe.training.budget
    assert budget is not None
    assert budget.minutes is not None
    training_seconds = _time_steps(recipe, model, datasets, schedule, autocast, processes, teaching)
    speed = Speed(training_seconds, time_prediction(recipe, model, datasets))
    measured = fit_into(recipe, model, datasets, speed)
    return MeasuredBudget(**processes.tell(vars(measured)))


def fit_into(recipe: Recipe, model: ManyHeads, datasets: Datasets, speed: Speed) -> MeasuredBudget:
    budget = recipe.training.budget
    assert budget is not None
    assert budget.minutes is not None
    seconds = PLANNED_SHARE * 60 * budget.minutes
    probe_tokens = recipe.training.probe_tokens
    probe_seconds = speed.token * probe_work(recipe, model, datasets, probe_tokens)
    most_seconds = PROBE_SHARE * (seconds - speed.token * evaluated_tokens(recipe, datasets, evaluations=1))
    while probe_seconds > most_seconds and probe_tokens > LEAST_PROBE_TOKENS:
        probe_tokens = max(LEAST_PROBE_TOKENS, probe_tokens // 2)
        probe_seconds = speed.token * probe_work(recipe, model, datasets, probe_tokens)
    one_pass = sum(map(datasets.pass_size, datasets.train))
    examples, epochs, other_seconds = 0.0, 1, 0.0
    for _ in range(3):  # more epochs are evaluated more often
        other_seconds = probe_seconds + speed.token * evaluated_tokens(recipe, datasets, epochs)
        examples = (seconds - other_seconds) / speed.example
        epochs = max(1, round(examples / one_pass))
    smallest = recipe.training.batch_size * recipe.training.accumulate
    dev_tokens = {name: _tokens_of(data, np.arange(len(data))) for name, data in datasets.dev.items()}
    largest_dev = max(dev_tokens, key=dev_tokens.__getitem__)
    return MeasuredBudget(max(smallest, round(examples)), probe_tokens, other_seconds, largest_dev)


def probe_work(recipe: Recipe, model: ManyHeads, datasets: Datasets, most_tokens: int | None = None) -> float:
    """How many tokens can be predicted in the time that the probe takes: 1.25·p, and nothing without one."""
    if not recipe.training.probe:
        return 0.0
    return SOLVING * probe_tokens_read(model, datasets, most_tokens or recipe.training.probe_tokens)


def evaluated_tokens(recipe: Recipe, datasets: Datasets, evaluations: int) -> int:
    """m, of so many evaluations while training: each is of averaged weights too, where there are any."""
    selection = dev = train = test = 0
    for name, rows in datasets.selection_rows.items():
        selection += _tokens_of(datasets.selection[name], rows)
    for data in datasets.dev.values():
        dev += _tokens_of(data, np.arange(len(data)))
    for name, rows in datasets.train_rows.items():
        train += _tokens_of(datasets.train[name], rows)
    for data in datasets.test.values():
        test += _tokens_of(data, np.arange(len(data)))
    baseline = 0
    if recipe.training.probe:
        evaluations += 1  # of what the probe begins with
        baseline = selection + dev
    return baseline + models_evaluated(recipe) * (evaluations * selection + dev) + evaluations * train + test


def _tokens_of(data: TaskTokens, rows: np.ndarray) -> int:
    return sum(int(column.lengths_of(rows).sum()) for column in data.texts)


def _time_steps(
    recipe: Recipe,
    model: ManyHeads,
    datasets: Datasets,
    schedule: Schedule,
    autocast: Callable[[], AbstractContextManager[None]],
    processes: Processes,
    teaching: Teaching | None,
) -> float:
    """Seconds of a step, per example."""
    phase = schedule.phases[0]
    backward = Backward(model, datasets.train, recipe.training.tokens_per_pass, autocast, processes)
    backward.pass_losses.teaching = teaching
    examples, seconds = 0, 0.0
    optimizer_seconds: float | None = None
    for step in range(min(1 + TIMED_STEPS, schedule.steps)):
        rounds = datasets.usable(schedule.rounds(step))
        began = time.monotonic()
        backward.step(rounds, phase.combination, (recipe.seed, step), phase.regularisers)
        taken = time.monotonic() - began
        if optimizer_seconds is None:
            optimizer_seconds = _time_optimizer(model)
        if step or schedule.steps == 1:
            seconds += taken + optimizer_seconds
            examples += sum(len(batch.indices) for batch in batches_of(rounds))
        _forget_gradients(model, phase.combination)
    return seconds / max(1, examples)


def _time_optimizer(model: ManyHeads) -> float:
    """Seconds of AdamW's step, on copies: the weights stay as they are."""
    copies = []
    for parameter in model.parameters():
        if parameter.grad is not None:
            copy = torch.nn.Parameter(parameter.detach().clone())
            copy.grad = parameter.grad.detach().to_dense() if parameter.grad.is_sparse else parameter.grad.detach()
            copies.append(copy)
    if not copies:
        return 0.0
    optimizer = torch.optim.AdamW(copies, fused=True)
    optimizer.step()  # makes its moments
    began = time.monotonic()
    optimizer.step()
    return time.monotonic() - began


def _forget_gradients(*modules: torch.nn.Module) -> None:
    for module in modules:
        module.zero_grad(set_to_none=True)


def time_prediction(recipe: Recipe, model: ManyHeads, datasets: Datasets) -> float:
    """Seconds per token that is predicted."""
    rows = {name: fixed_subset(datasets.train[name], TIMED_EXAMPLES, recipe.seed) for name in datasets.dev}
    data = {name: datasets.train[name] for name in rows}
    tokens = sum(_tokens_of(data[name], task_rows) for name, task_rows in rows.items())
    seconds = 0.0
    for _ in range(2):  # the first one warms up
        began = time.monotonic()
        predict_tasks(model, data, recipe.evaluate.tokens_per_pass, rows)
        seconds = time.monotonic() - began
    return seconds / max(1, tokens)
