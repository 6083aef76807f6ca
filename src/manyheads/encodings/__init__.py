"""How one or two sentences become one vector: encodings and pooling. Importing registers them."""

from manyheads.encodings.base import Encoding, Pooling
from manyheads.encodings.cross import Cross
from manyheads.encodings.first_token import FirstToken
from manyheads.encodings.head_pooler import HeadPooler
from manyheads.encodings.last_token import LastToken
from manyheads.encodings.mean import Mean
from manyheads.encodings.shared_pooler import SharedPooler
from manyheads.encodings.single import Single

__all__ = [
    "Cross",
    "Encoding",
    "FirstToken",
    "HeadPooler",
    "LastToken",
    "Mean",
    "Pooling",
    "SharedPooler",
    "Single",
]
