"""Round robin in which no task is repeated too often."""

from __future__ import annotations

from manyheads.parts.samplers.base import Passes, Supply
from manyheads.parts.samplers.round_robin import FreshSample, RoundRobin, Step
from manyheads.registry import Count, register


@register("samplers", "capped", paper="D")
class Capped(RoundRobin):
    """The largest task once an epoch; every other at most `repeats` times, spread evenly: min(k·n_i, n_max) batches.

    n_i: batches of one pass over task i; k (`repeats`): the cap, 5 as in paper D.
    Relations: with a large k this is `batch-round-robin`, which repeats the small tasks without limit.
    """

    def __init__(self, supply: Supply, *, repeats: Count = 5, step: Step = "round") -> None:
        draws: list[Passes | FreshSample] = [Passes(supply, task) for task in supply.sizes]
        most = max(one.batches for one in draws)
        counts = [min(repeats * one.batches, most) for one in draws]
        super().__init__(supply, draws, counts, most, step)
        times = "time" if repeats == 1 else "times"
        self.meaning = f"An epoch is one pass over the largest task, and at most {repeats} {times} each of the others."
