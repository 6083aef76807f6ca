"""First the largest task alone, then all of them."""

from __future__ import annotations

from dataclasses import replace

from manyheads.parts.samplers.base import Batch, Epochs, SamplerInput
from manyheads.parts.samplers.blocks import EpochRoundRobin
from manyheads.parts.samplers.round_robin import SampledRoundRobin, Step
from manyheads.registry import Count, register


@register("samplers", "staggered", paper="E")
class Staggered(Epochs):
    """The first epochs (`first`, 2 as in paper E) only the largest task, then `sampled-round-robin`.

    Relations: the same as two phases, the first of which trains on one task.
    """

    def __init__(self, sampler_input: SamplerInput, *, first: Count = 2, step: Step = "round") -> None:
        if first >= sampler_input.epochs:
            raise ValueError(f"'first' is from 1 to one less than the epochs ({sampler_input.epochs}), found {first}")
        large = sampler_input.largest
        self.alone = EpochRoundRobin(replace(sampler_input, sizes={large: sampler_input.sizes[large]}, epochs=first))
        self.all = SampledRoundRobin(replace(sampler_input, epochs=sampler_input.epochs - first), step=step)
        self.first = sum(self.alone.epochs)
        self.epochs = [*self.alone.epochs, *self.all.epochs]
        self.pass_ends = self.alone.pass_ends
        self.epoch_description = (
            f"The first {first} epochs are passes over '{large}' alone. Later: {self.all.epoch_description}"
        )

    def round(self, index: int) -> list[Batch]:
        return self.alone.round(index) if index < self.first else self.all.round(index - self.first)
