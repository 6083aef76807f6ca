"""Whole passes over one task after the other."""

from __future__ import annotations

from itertools import accumulate

from manyheads.parts.samplers.base import Batch, Epochs, PassEnd, Passes, SamplerInput, check_order
from manyheads.registry import TaskName, register


@register("samplers", "sequential", paper="A")
class Sequential(Epochs):
    """All epochs of the first task, then all of the second, and so on: shows catastrophic forgetting.

    `order`: the tasks in their order; by default that of the recipe.
    """

    def __init__(self, sampler_input: SamplerInput, *, order: list[TaskName] | None = None) -> None:
        self.passes = [Passes(sampler_input, task) for task in check_order(order, list(sampler_input.sizes))]
        self.each = sampler_input.epochs
        self.epochs = [one.batches for one in self.passes for _ in range(sampler_input.epochs)]
        tasks = [one.task for one in self.passes for _ in range(sampler_input.epochs)]
        self.pass_ends = [PassEnd(rounds, task) for rounds, task in zip(accumulate(self.epochs), tasks, strict=True)]
        self.epoch_description = (
            f"An epoch is a pass over one task: {sampler_input.epochs} for each task, one task after the other."
        )

    def round(self, index: int) -> list[Batch]:
        epoch, location = self.location(index)
        task, number = divmod(epoch, self.each)
        passes = self.passes[task]
        return [passes.batch(number * passes.batches + location)]


@register("samplers", "epoch-round-robin", paper="A, B")
class EpochRoundRobin(Epochs):
    """Every epoch all of the first task, then all of the second, and so on; the last in order is remembered best.

    `order`: the tasks in their order; by default that of the recipe (paper B shows that it matters).
    """

    def __init__(self, sampler_input: SamplerInput, *, order: list[TaskName] | None = None) -> None:
        self.passes = [Passes(sampler_input, task) for task in check_order(order, list(sampler_input.sizes))]
        self.ends = list(accumulate(one.batches for one in self.passes))
        self.epochs = [self.ends[-1]] * sampler_input.epochs
        self.pass_ends = []
        for epoch in range(sampler_input.epochs):
            for end, passes in zip(self.ends, self.passes, strict=True):
                self.pass_ends.append(PassEnd(epoch * self.ends[-1] + end, passes.task))
        self.epoch_description = "An epoch is one pass over every task, one task after the other."

    def round(self, index: int) -> list[Batch]:
        epoch, location = self.location(index)
        task = next(number for number, end in enumerate(self.ends) if location < end)
        passes = self.passes[task]
        return [passes.batch(epoch * passes.batches + location - (self.ends[task] - passes.batches))]
