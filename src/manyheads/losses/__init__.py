"""(outputs, labels) → one value per example. Importing registers every loss."""

from manyheads.losses.base import Loss
from manyheads.losses.binary_cross_entropy import BinaryCrossEntropy
from manyheads.losses.cosent import CoSent
from manyheads.losses.cosine_embedding import CosineEmbedding
from manyheads.losses.cross_entropy import CrossEntropy
from manyheads.losses.dual_cross_entropy import DualCrossEntropy
from manyheads.losses.mse import MeanSquaredError
from manyheads.losses.ordinal_log_loss import OrdinalLogLoss
from manyheads.losses.pearson_loss import PearsonLoss

__all__ = [
    "BinaryCrossEntropy",
    "CoSent",
    "CosineEmbedding",
    "CrossEntropy",
    "DualCrossEntropy",
    "Loss",
    "MeanSquaredError",
    "OrdinalLogLoss",
    "PearsonLoss",
]
