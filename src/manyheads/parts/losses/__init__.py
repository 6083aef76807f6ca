"""(outputs, labels) → one value per example. Importing registers every loss."""

from manyheads.parts.losses.base import Loss
from manyheads.parts.losses.binary_cross_entropy import BinaryCrossEntropy
from manyheads.parts.losses.choice_cross_entropy import ChoiceCrossEntropy
from manyheads.parts.losses.cosent import CoSent
from manyheads.parts.losses.cosine_embedding import CosineEmbedding
from manyheads.parts.losses.crf import Crf
from manyheads.parts.losses.cross_entropy import CrossEntropy
from manyheads.parts.losses.dual_cross_entropy import DualCrossEntropy
from manyheads.parts.losses.margin_mse import MarginMSE
from manyheads.parts.losses.mse import MeanSquaredError
from manyheads.parts.losses.multiple_negatives import MultipleNegatives
from manyheads.parts.losses.ordinal_log_loss import OrdinalLogLoss
from manyheads.parts.losses.pearson_loss import PearsonLoss
from manyheads.parts.losses.span_cross_entropy import SpanCrossEntropy
from manyheads.parts.losses.tag_cross_entropy import TagCrossEntropy

__all__ = [
    "BinaryCrossEntropy",
    "ChoiceCrossEntropy",
    "CoSent",
    "CosineEmbedding",
    "Crf",
    "CrossEntropy",
    "DualCrossEntropy",
    "Loss",
    "MarginMSE",
    "MeanSquaredError",
    "MultipleNegatives",
    "OrdinalLogLoss",
    "PearsonLoss",
    "SpanCrossEntropy",
    "TagCrossEntropy",
]
