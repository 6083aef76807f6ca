"""(outputs, labels) → one value per example. Importing registers every loss."""

from manyheads.losses.base import Loss
from manyheads.losses.binary_cross_entropy import BinaryCrossEntropy
from manyheads.losses.cross_entropy import CrossEntropy
from manyheads.losses.mse import MeanSquaredError

__all__ = ["BinaryCrossEntropy", "CrossEntropy", "Loss", "MeanSquaredError"]
