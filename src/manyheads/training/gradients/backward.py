"""The only place that fills `.grad`.

Losses alone: all batches of a round go through the encoder as one packed pass, or as several where they hold more
tokens than fit. Losses are sums over examples divided by counts of the whole step, or of the whole batch
(`combine.average`), so passes add up to the same gradient.

Task gradients (an aggregator, a task's layer factors, the diagnosis of conflicts): task by task forward and backward,
and what the tasks share is moved aside before the next task. No graph is kept, no gradient is copied or stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from manyheads.config.training import Average, trainable_layers
from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.aggregators.base import Aggregator
from manyheads.parts.regularisers.base import Regulariser
from manyheads.parts.samplers import Batch
from manyheads.seeding import seeded_rng
from manyheads.training.distributed import Processes
from manyheads.training.gradients.combination import Combination, checked_weights, learn_weights, scalarized
from manyheads.training.gradients.non_finite import NonFiniteLoss
from manyheads.training.gradients.pass_losses import PassLosses
from manyheads.training.gradients.passes import RoundPass, loss_divisors, shares_of_rounds, split_passes
from manyheads.training.gradients.tables import Rows, WholeTables, add_up_rows, touched_rows_only
from manyheads.training.gradients.task_gradients import KeptGradients, TaskGradients, shared_parameters
from manyheads.training.task_adamw import TaskAdamW


@dataclass
class Step:
    """What one step's gradient was made of."""

    losses: dict[str, float]  # of each task, its share included
    shares: dict[str, float] = field(default_factory=dict)  # what of it is the task's share of examples or rounds
    factors: dict[str, float] = field(default_factory=dict)  # what the scalarizer multiplied each task with
    weights: dict[str, float] = field(default_factory=dict)  # what the aggregator did; empty without one
    gramians: dict[str, Tensor] = field(default_factory=dict)  # of the task gradients, where there were such
    terms: dict[str, float] = field(default_factory=dict)  # what each regulariser added to the losses
    scales: dict[str, float] = field(default_factory=dict)  # what each task's loss was divided by, where it was
    alarmed: bool = False  # whether any process raised the alarm

    @property
    def mean_losses(self) -> dict[str, float]:
        """Of each task the mean over its examples, or its batches: comparable from step to step."""
        return {task: loss / self.shares.get(task, 1.0) for task, loss in self.losses.items()}

    @property
    def raw_losses(self) -> dict[str, float]:
        """The same as the tasks' own losses give them."""
        return {task: loss * self.scales.get(task, 1.0) for task, loss in self.mean_losses.items()}


class Backward:
    """Batches → `.grad`, for one model and its data.

    With several processes each works on its slice of the rounds, and sums go over all of them.
    """

    def __init__(
        self,
        model: ManyHeads,
        data: dict[str, TaskTokens],
        tokens_per_pass: int,
        autocast: Callable[[], AbstractContextManager[None]],
        processes: Processes | None = None,
        layer_factors: Mapping[str, Mapping[int, float]] | None = None,  # task → layer → factor on its gradient
    ) -> None:
        self.model, self.data = model, data
        self.tokens_per_pass = tokens_per_pass
        self.processes = processes or Processes()
        self.layer_factors = layer_factors or {}
        self.task_optimizer: TaskAdamW | None = None  # one that asks for every task's gradient of the encoder
        self.pass_losses = PassLosses(model, data, autocast)
        self.pass_losses.tokens_per_pass = tokens_per_pass
        self.tables = WholeTables()
        self.regularisers: Sequence[Regulariser] = ()  # of the step under way
        self.seeds = (0, 0)  # of the step under way: the run's, the step's number

    def step(
        self,
        rounds: list[list[Batch]],
        combination: Combination,
        seeds: tuple[int, int] = (0, 0),
        regularisers: Sequence[Regulariser] = (),
        alarm: bool = False,
    ) -> Step:
        """Add the gradient of one step to `.grad`. `seeds` (the run's, the step's number) decide every draw."""
        self._begin(combination, regularisers, seeds)
        shares = shares_of_rounds(rounds, combination.average)
        tasks = list(shares)
        aggregator = combination.aggregator
        terms = [regulariser.name for regulariser in regularisers if set(regulariser.tasks) & set(tasks)]
        done = Step(dict.fromkeys(tasks, 0.0), shares, terms=dict.fromkeys(terms, 0.0), scales=self.pass_losses.scales)
        taken = self._taken(tasks, combination)
        apart = aggregator is not None or bool(taken.parameters) or any(task in self.layer_factors for task in tasks)
        passes = self._passes(rounds, tasks if apart else None, combination.average)
        fault: NonFiniteLoss | None = None
        try:
            done.factors = self._factors(passes, done, combination, seeds)
            with self._draws(seeds):
                if apart:
                    self._task_by_task(passes, done, taken)
                else:
                    self._merged(passes[""], done, combination)
        except NonFiniteLoss as loss_fault:  # told to the other processes first, which would wait for this one
            fault = loss_fault
        broken, done.alarmed = self.processes.any([fault is not None, alarm])
        self.processes.add_numbers(done.losses)
        self.processes.add_numbers(done.terms)
        if broken:
            raise fault or NonFiniteLoss(", ".join(tasks), [], float("nan"))
        if aggregator is not None:
            self._aggregate(taken, done, aggregator, seeds)
        if self.task_optimizer is not None and isinstance(taken, KeptGradients):
            self.task_optimizer.task_gradients = taken.add_up()
        if self.processes.count > 1:
            self._add_up(taken.parameters)
        self._penalise(done)
        learn_weights(combination, scalarized(done.losses, done.shares, combination))
        return done

    def _begin(self, combination: Combination, regularisers: Sequence[Regulariser], seeds: tuple[int, int]) -> None:
        self.regularisers, self.seeds = regularisers, seeds
        self.pass_losses.begin(combination.loss_scale, regularisers, seeds[1])

    def _taken(self, tasks: list[str], combination: Combination) -> TaskGradients:
        """What is moved aside task by task: for the aggregator, for the optimizer, or nothing."""
        if combination.aggregator is not None:
            shared = shared_parameters(self.model, combination.layers)
            return TaskGradients(self.model, shared, self.processes, combination.copies, self.tables)
        if self.task_optimizer is not None and self.task_optimizer.needs_task_gradients(tasks):
            encoder = shared_parameters(self.model, range(self.model.encoder.depth + 1))
            return KeptGradients(self.model, encoder, self.processes, tables=self.tables)
        return TaskGradients(self.model, {}, self.processes)

    def _add_up(self, summed: Mapping[str, Tensor]) -> None:
        """Sum over all processes the gradients that are not summed already."""
        parameters = []
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad and name not in summed:
                parameters.append(parameter)
        self.processes.add_gradients(parameters)
        self.tables.forget()

    def _penalise(self, done: Step) -> None:
        """Add the gradient of regularisers that read the weights alone."""
        for regulariser in self.regularisers:
            if not regulariser.reads_examples:
                done.terms[regulariser.name] += regulariser.penalise(self.model)
                self.tables.forget()

    def shares(self, trained: str | list[int]) -> bool:
        """Whether tasks share anything that learns."""
        model = self.model
        heads = bool(len(model.groups)) or any(task.head_of is not None for task in model.tasks.values())
        return heads or bool(trainable_layers(trained, model.encoder.depth))

    def measure(
        self,
        rounds: list[list[Batch]],
        combination: Combination,
        seeds: tuple[int, int] = (0, 0),
        regularisers: Sequence[Regulariser] = (),
    ) -> dict[str, Tensor]:
        """The Gramians of the weighted task gradients, by layer group, of all that tasks share. `.grad` is untouched.

        Nothing where a loss is not finite: the step itself says so.
        """
        self._begin(combination, regularisers, seeds)
        shares = shares_of_rounds(rounds, combination.average)
        tasks = list(shares)
        before = [(parameter, parameter.grad) for parameter in self.model.parameters()]
        for parameter, _ in before:
            parameter.grad = None
        done = Step(dict.fromkeys(tasks, 0.0), factors=dict.fromkeys(tasks, 1.0))
        taken = TaskGradients(self.model, shared_parameters(self.model), self.processes, combination.copies)
        fault: NonFiniteLoss | None = None
        with self._draws(seeds, "conflicts"):
            try:
                self._task_by_task(self._passes(rounds, tasks, combination.average), done, taken)
            except NonFiniteLoss as loss_fault:
                fault = loss_fault
        for parameter, gradient in before:
            parameter.grad = gradient
        broken = self.processes.any([fault is not None])[0]
        self.processes.add_numbers(done.losses)
        if broken:
            return {}
        weighed = scalarized(done.losses, shares, combination)
        with seeded_rng(*seeds, "combine"):
            factors = torch.tensor(list(combination.scalarizer.factors(weighed).values()), dtype=torch.float64)
        return {group: factors[:, None] * gramian * factors for group, gramian in taken.gramians().items()}

    # --- one packed pass for all tasks, or a pass for each ------------------------------------------------------

    def _passes(
        self, rounds: list[list[Batch]], tasks: list[str] | None, average: Average = "step"
    ) -> dict[str, list[RoundPass]]:
        """This process's share of the rounds as passes: of each task, or of all of them together under ''."""
        divisors = loss_divisors(self.model, self.data, rounds, average)
        passes_of: dict[str, list[RoundPass]] = {task: [] for task in tasks or [""]}
        for task, passes in passes_of.items():
            for batches, round_divisors in zip(self.processes.share(rounds), divisors, strict=True):
                groups: dict[tuple[object, ...], list[Batch]] = {}  # a pass is regularised, or read, as a whole
                for batch in batches:
                    if task in ("", batch.task):
                        has_states = self.data[batch.task].frozen is not None
                        groups.setdefault((has_states, *self.pass_losses.regularisers_of(batch.task)), []).append(batch)
                for group in groups.values():
                    for passing in split_passes(self.model, self.data, group, self.tokens_per_pass, self.seeds):
                        passes.append(RoundPass(passing, round_divisors))
        return passes_of

    def _merged(self, passes: list[RoundPass], done: Step, combination: Combination) -> None:
        words = self.model.encoder.words
        by_rows = [words] if words.grad is None and words.device.type == "cpu" else []  # where zeros cost something
        for round_pass in passes:
            with touched_rows_only(self.model, by_rows):
                losses = self.pass_losses(round_pass, done.terms)
            values = {task: loss.item() for task, loss in losses.items()}
            # not known yet where this is the only pass, whose losses are the step's
            if not done.factors:
                done.factors = combination.scalarizer.factors(scalarized(values, done.shares, combination))
            for task, value in values.items():
                done.losses[task] += value
            torch.stack([done.factors[task] * loss for task, loss in losses.items()]).sum().backward()
            add_up_rows(by_rows)
        if not by_rows:
            self.tables.forget()  # one of them may be what was added to
        elif words.grad is not None and words.grad.is_sparse:
            words.grad = self.tables.write(words, Rows.of(words.grad))

    def _task_by_task(self, passes: dict[str, list[RoundPass]], done: Step, taken: TaskGradients) -> None:
        """The gradients of what is taken are put aside for every task; of all else they add up in `.grad`."""
        fault: NonFiniteLoss | None = None
        for task, task_passes in passes.items():
            with touched_rows_only(self.model, list(taken.parameters.values())), self._scaled_layers(task):
                try:
                    for round_pass in task_passes:
                        loss = self.pass_losses(round_pass, done.terms)[task]
                        done.losses[task] += loss.item()
                        (done.factors[task] * loss).backward()
                        add_up_rows(taken.parameters.values())
                except NonFiniteLoss as loss_fault:  # the other processes wait for this one to take its turn
                    fault = fault or loss_fault
            taken.take(task)
        if fault is not None:
            raise fault

    def _factors(
        self, passes: dict[str, list[RoundPass]], done: Step, combination: Combination, seeds: tuple[int, int]
    ) -> dict[str, float]:
        """What the scalarizer multiplies each task's gradient with; {} where only the pass itself will tell."""
        scalarizer, tasks = combination.scalarizer, list(done.losses)
        if scalarizer.affine:
            with seeded_rng(*seeds, "combine"):
                return scalarizer.factors(dict.fromkeys(tasks, 1.0))
        if self.processes.count == 1 and list(passes) == [""] and len(passes[""]) == 1:
            return {}
        losses = self._look_ahead(passes, tasks, seeds)
        return scalarizer.factors(scalarized(losses, done.shares, combination))

    def _aggregate(self, taken: TaskGradients, done: Step, aggregator: Aggregator, seeds: tuple[int, int]) -> None:
        done.gramians = taken.gramians()
        done.weights = dict.fromkeys(taken.tasks, 1.0)
        gramian = torch.stack(list(done.gramians.values())).sum(dim=0) if done.gramians else torch.empty(0)
        if len(gramian) and torch.isfinite(gramian).all():  # else the plain sum, whose norm the loop refuses
            with seeded_rng(*seeds, "combine"):  # the same in every process
                weights = aggregator(gramian, taken.tasks)
            done.weights = dict(zip(taken.tasks, checked_weights(weights, taken.tasks, aggregator), strict=True))
        taken.fill(done.weights)

    def _look_ahead(
        self, passes: dict[str, list[RoundPass]], tasks: list[str], seeds: tuple[int, int]
    ) -> dict[str, float]:
        """The step's losses before any gradient, with the dropout masks that the gradient will have."""
        losses = dict.fromkeys(tasks, 0.0)
        fault: NonFiniteLoss | None = None
        with torch.no_grad(), self._draws(seeds):
            try:
                for task_passes in passes.values():
                    for round_pass in task_passes:
                        for task, loss in self.pass_losses(round_pass, {}).items():
                            losses[task] += loss.item()
            except NonFiniteLoss as loss_fault:
                fault = loss_fault
        self.processes.add_numbers(losses)
        if self.processes.any([fault is not None])[0]:
            raise fault or NonFiniteLoss(", ".join(tasks), [], float("nan"))
        return losses

    def _draws(self, seeds: tuple[int, int], purpose: str = "step") -> AbstractContextManager[None]:
        """Every process draws masks of its own; the first draws those of a training alone."""
        return seeded_rng(*seeds, purpose, *(() if self.processes.main else (self.processes.rank,)))

    @contextmanager
    def _scaled_layers(self, task: str) -> Iterator[None]:
        """Within the block, what the task sends to the encoder's layers is multiplied with its factors."""
        factors = self.layer_factors.get(task, {})
        encoder = self.model.encoder
        hooks = [
            parameter.register_hook(lambda gradient, factor=factor: gradient * factor)
            for name, parameter in encoder.named_parameters()
            if parameter.requires_grad and (factor := factors.get(encoder.layer_of(name), 1.0)) != 1
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
