"""How one or two sentences become encoder inputs and features. Importing registers every encoding."""

from manyheads.parts.encodings.base import Encoding
from manyheads.parts.encodings.bi_concat import BiConcat
from manyheads.parts.encodings.bi_cosine import BiCosine
from manyheads.parts.encodings.bi_cosine_feature import BiCosineFeature
from manyheads.parts.encodings.bi_features import BiFeatures
from manyheads.parts.encodings.bi_scaled_cosine import BiScaledCosine
from manyheads.parts.encodings.bi_shared import BiShared
from manyheads.parts.encodings.bi_siamese import BiSiamese
from manyheads.parts.encodings.bi_vectors import BiVectors
from manyheads.parts.encodings.cross import Cross
from manyheads.parts.encodings.cross_bi import CrossBi
from manyheads.parts.encodings.cross_nosep import CrossNoSeparator
from manyheads.parts.encodings.single import Single

__all__ = [
    "BiConcat",
    "BiCosine",
    "BiCosineFeature",
    "BiFeatures",
    "BiScaledCosine",
    "BiShared",
    "BiSiamese",
    "BiVectors",
    "Cross",
    "CrossBi",
    "CrossNoSeparator",
    "Encoding",
    "Single",
]
