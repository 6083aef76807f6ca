"""Round robin in which no task is repeated too often."""

from __future__ import annotations

from manyheads.parts.samplers.base import Passes, SamplerInput
from manyheads.parts.samplers.round_robin import FreshSample, RoundRobin, Step
from manyheads.registry import Count, register


@register("samplers", "capped", paper="D")
class Capped(RoundRobin):
    """The largest task once an epoch; every other at most `repeats` times, spread evenly: min(k·n_i, n_max) batches.

    n_i: batches of one pass over task i; k (`repeats`): the cap, 5 as in paper D.
    Relations: with a large k this is `batch-round-robin`, which repeats the small tasks without limit.
    """

    def __init__(self, sampler_input: SamplerInput, *, repeats: Count = 5, step: Step = "round") -> None:
        streams: list[Passes | FreshSample] = [Passes(sampler_input, task) for task in sampler_input.sizes]
        most = max(stream.batches for stream in streams)
        counts = [min(repeats * stream.batches, most) for stream in streams]
        super().__init__(sampler_input, streams, counts, most, step)
        times = "time" if repeats == 1 else "times"
        self.epoch_description = (
            f"An epoch is one pass over the largest task, and at most {repeats} {times} each of the others."
        )
