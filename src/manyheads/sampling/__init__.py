"""The order in which batches of the tasks come. Importing registers every sampler."""

from manyheads.sampling.base import Batch, Passes, Sampler, Supply
from manyheads.sampling.blocks import EpochRoundRobin, Sequential
from manyheads.sampling.capped import Capped
from manyheads.sampling.round_robin import BatchRoundRobin, MaxSizeCycle, SampledRoundRobin
from manyheads.sampling.sized import Balanced, FullData
from manyheads.sampling.staggered import Staggered
from manyheads.sampling.weighted import Annealed, Explicit, Proportional, Uniform

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
    "Passes",
    "Proportional",
    "SampledRoundRobin",
    "Sampler",
    "Sequential",
    "Staggered",
    "Supply",
    "Uniform",
]
