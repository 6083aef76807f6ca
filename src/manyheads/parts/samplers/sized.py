"""Round robin with equal shares of every task: by drawing as much of each, or by batch sizes that fit."""

from __future__ import annotations

from manyheads.parts.samplers.base import Passes, SamplerInput
from manyheads.parts.samplers.round_robin import Draw, FreshSample, RoundRobin, Step
from manyheads.registry import register


@register("samplers", "balanced", paper="C")
class Balanced(RoundRobin):
    """Every epoch a random part of each task, as large as the smallest task; batches in turn.

    `draw`: every epoch takes a 'fresh' part, or all of them the same ('fixed'), as where data is cut down beforehand.
    Relations: `full-data` uses everything instead, with smaller batches of the small tasks.
    """

    def __init__(self, sampler_input: SamplerInput, *, draw: Draw = "fresh", step: Step = "round") -> None:
        smallest = min(sampler_input.sizes.values())
        streams: list[Passes | FreshSample] = [
            FreshSample(sampler_input, task, smallest, draw) for task in sampler_input.sizes
        ]
        counts = [stream.batches for stream in streams]
        super().__init__(sampler_input, streams, counts, max(counts), step)
        which = "random examples" if draw == "fresh" else "examples, always the same,"
        self.epoch_description = f"An epoch is {smallest:,} {which} of every task, as many as the smallest has."


@register("samplers", "full-data", paper="C")
class FullData(RoundRobin):
    """Every task about once an epoch, in as many batches as the largest has: b_i = max(1, round(N_i / R)).

    R = ⌈max N / b⌉ with b the batch size of the largest task; the other tasks' batch sizes are not used. Each task goes
    on in its own order across epochs, so what an epoch leaves out comes first in the next.
    """

    def __init__(self, sampler_input: SamplerInput, *, step: Step = "round") -> None:
        large = max(sampler_input.sizes, key=lambda task: sampler_input.sizes[task])
        rounds = sampler_input.batches(large)
        self.batch_sizes = {task: max(1, round(size / rounds)) for task, size in sampler_input.sizes.items()}
        streams: list[Passes | FreshSample] = [
            Passes(sampler_input, task, self.batch_sizes[task]) for task in sampler_input.sizes
        ]
        super().__init__(sampler_input, streams, [rounds] * len(streams), rounds, step)
        self.epoch_description = (
            f"An epoch is one pass over '{large}'; the others have batch sizes with which they end with it."
        )
