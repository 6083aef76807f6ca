"""How one or two sentences become one vector: encodings and pooling. Importing registers them."""

from manyheads.encodings.base import Encoding, Pooling
from manyheads.encodings.cross import Cross
from manyheads.encodings.head_pooler import HeadPooler
from manyheads.encodings.single import Single

__all__ = ["Cross", "Encoding", "HeadPooler", "Pooling", "Single"]
