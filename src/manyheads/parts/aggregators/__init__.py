"""The Gramian of the task gradients → a weight for each task. Importing registers every aggregator."""

from manyheads.parts.aggregators.base import Aggregator
from manyheads.parts.aggregators.gradvac import GradVac
from manyheads.parts.aggregators.surgery import PCGrad

__all__ = ["Aggregator", "GradVac", "PCGrad"]
