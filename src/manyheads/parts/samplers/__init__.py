"""The order in which batches of the tasks come. Importing registers every sampler."""

from manyheads.parts.samplers.base import Batch, PassEnd, Passes, Sampler, SamplerInput
from manyheads.parts.samplers.blocks import EpochRoundRobin, Sequential
from manyheads.parts.samplers.capped import Capped
from manyheads.parts.samplers.mixture import Mixture
from manyheads.parts.samplers.round_robin import BatchRoundRobin, MaxSizeCycle, SampledRoundRobin
from manyheads.parts.samplers.sized import Balanced, FullData
from manyheads.parts.samplers.staggered import Staggered
from manyheads.parts.samplers.weighted import Annealed, Explicit, Proportional, Uniform

__all__ = [
    "Annealed",
    "Balanced",
    "Batch",
    "BatchRoundRobin",
    "Capped",
    "EpochRoundRobin",
    "Explicit",
    "FullData",
    "MaxSizeCycle",
    "Mixture",
    "PassEnd",
    "Passes",
    "Proportional",
    "SampledRoundRobin",
    "Sampler",
    "SamplerInput",
    "Sequential",
    "Staggered",
    "Uniform",
]
