"""The tasks' losses → one gradient. Importing registers every scalarizer and aggregator."""

from manyheads.combine.base import Aggregator, Scalarizer
from manyheads.combine.combination import Combination, build_combination
from manyheads.combine.sum import Mean, Sum  # isort: split

from manyheads.combine.dynamic import DynamicWeights
from manyheads.combine.fixed import FixedWeights
from manyheads.combine.geometric import GeometricMean
from manyheads.combine.imtl_l import ImpartialLosses
from manyheads.combine.liebel_korner import LiebelKorner
from manyheads.combine.random_weights import RandomWeights
from manyheads.combine.surgery import PCGrad  # isort: split

from manyheads.combine.gradvac import GradVac
from manyheads.combine.tchebycheff import SmoothTchebycheff
from manyheads.combine.uncertainty import Uncertainty

__all__ = [
    "Aggregator",
    "Combination",
    "DynamicWeights",
    "FixedWeights",
    "GeometricMean",
    "GradVac",
    "ImpartialLosses",
    "LiebelKorner",
    "Mean",
    "PCGrad",
    "RandomWeights",
    "Scalarizer",
    "SmoothTchebycheff",
    "Sum",
    "Uncertainty",
    "build_combination",
]
