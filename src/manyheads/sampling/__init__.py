"""The order in which batches of the tasks come. Importing registers every sampler."""

from manyheads.sampling.base import Batch, Passes, Sampler
from manyheads.sampling.round_robin import BatchRoundRobin

__all__ = ["Batch", "BatchRoundRobin", "Passes", "Sampler"]
