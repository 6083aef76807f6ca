"""Round robin with equal shares of every task: by drawing as much of each, or by batch sizes that fit."""

from __future__ import annotations

from manyheads.parts.samplers.base import Passes, Supply
from manyheads.parts.samplers.round_robin import FreshSample, RoundRobin, Step
from manyheads.registry import register


@register("samplers", "balanced", paper="C")
class Balanced(RoundRobin):
    """Every epoch a fresh random part of each task, as large as the smallest task; batches in turn.

    Relations: `full-data` uses everything instead, with smaller batches of the small tasks.
    """

    def __init__(self, supply: Supply, *, step: Step = "round") -> None:
        smallest = min(supply.sizes.values())
        draws: list[Passes | FreshSample] = [FreshSample(supply, task, smallest) for task in supply.sizes]
        counts = [one.batches for one in draws]
        super().__init__(supply, draws, counts, max(counts), step)
        self.meaning = f"An epoch is {smallest:,} random examples of every task, as many as the smallest has."


@register("samplers", "full-data", paper="C")
class FullData(RoundRobin):
    """Every task about once an epoch, in as many batches as the largest has: b_i = max(1, round(N_i / R)).

    R = ⌈max N / b⌉ with b the batch size of the largest task; the other tasks' batch sizes are not used. Each task goes
    on in its own order across epochs, so what an epoch leaves out comes first in the next.
    """

    def __init__(self, supply: Supply, *, step: Step = "round") -> None:
        large = max(supply.sizes, key=lambda task: supply.sizes[task])
        rounds = supply.batches(large)
        self.batch_sizes = {task: max(1, round(size / rounds)) for task, size in supply.sizes.items()}
        draws: list[Passes | FreshSample] = [Passes(supply, task, self.batch_sizes[task]) for task in supply.sizes]
        super().__init__(supply, draws, [rounds] * len(draws), rounds, step)
        self.meaning = f"An epoch is one pass over '{large}'; the others have batch sizes with which they end with it."
