"""How one or two sentences become one vector: encodings and pooling. Importing registers them."""

from manyheads.encodings.base import Encoding, Pooling
from manyheads.encodings.bi_concat import BiConcat
from manyheads.encodings.bi_cosine import BiCosine
from manyheads.encodings.bi_cosine_feature import BiCosineFeature
from manyheads.encodings.bi_scaled_cosine import BiScaledCosine
from manyheads.encodings.bi_shared import BiShared
from manyheads.encodings.bi_siamese import BiSiamese
from manyheads.encodings.cross import Cross
from manyheads.encodings.cross_nosep import CrossNoSeparator
from manyheads.encodings.first_token import FirstToken
from manyheads.encodings.head_pooler import HeadPooler
from manyheads.encodings.last_token import LastToken
from manyheads.encodings.lstm import LstmPooling
from manyheads.encodings.mean import Mean
from manyheads.encodings.shared_pooler import SharedPooler
from manyheads.encodings.single import Single

__all__ = [
    "BiConcat",
    "BiCosine",
    "BiCosineFeature",
    "BiScaledCosine",
    "BiShared",
    "BiSiamese",
    "Cross",
    "CrossNoSeparator",
    "Encoding",
    "FirstToken",
    "HeadPooler",
    "LastToken",
    "LstmPooling",
    "Mean",
    "Pooling",
    "SharedPooler",
    "Single",
]
