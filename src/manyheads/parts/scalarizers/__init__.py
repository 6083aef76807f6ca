"""The tasks' losses → one loss. Importing registers every scalarizer."""

from manyheads.parts.scalarizers.base import Scalarizer
from manyheads.parts.scalarizers.dynamic import DynamicWeights
from manyheads.parts.scalarizers.fixed import FixedWeights
from manyheads.parts.scalarizers.geometric import GeometricMean
from manyheads.parts.scalarizers.imtl_l import ImpartialLosses
from manyheads.parts.scalarizers.liebel_korner import LiebelKorner
from manyheads.parts.scalarizers.random_weights import RandomWeights
from manyheads.parts.scalarizers.sum import Mean, Sum
from manyheads.parts.scalarizers.tchebycheff import SmoothTchebycheff
from manyheads.parts.scalarizers.uncertainty import Uncertainty

__all__ = [
    "DynamicWeights",
    "FixedWeights",
    "GeometricMean",
    "ImpartialLosses",
    "LiebelKorner",
    "Mean",
    "RandomWeights",
    "Scalarizer",
    "SmoothTchebycheff",
    "Sum",
    "Uncertainty",
]
