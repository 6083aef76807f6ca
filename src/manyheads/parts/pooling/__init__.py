"""Token states → one vector. Importing registers every pooling."""

from manyheads.parts.pooling.base import Pooling
from manyheads.parts.pooling.first_token import FirstToken
from manyheads.parts.pooling.head_pooler import HeadPooler
from manyheads.parts.pooling.last_token import LastToken
from manyheads.parts.pooling.lstm import LstmPooling
from manyheads.parts.pooling.mean import Mean
from manyheads.parts.pooling.shared_pooler import SharedPooler
from manyheads.parts.pooling.trained import Trained, pooling_of
from manyheads.parts.pooling.words import WordStates

__all__ = [
    "FirstToken",
    "HeadPooler",
    "LastToken",
    "LstmPooling",
    "Mean",
    "Pooling",
    "SharedPooler",
    "Trained",
    "WordStates",
    "pooling_of",
]
