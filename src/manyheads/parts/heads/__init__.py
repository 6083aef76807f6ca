"""Features → outputs. Importing registers every head."""

from manyheads.parts.heads.base import Head
from manyheads.parts.heads.hidden import Hidden
from manyheads.parts.heads.linear import Linear
from manyheads.parts.heads.lstm import LstmHead
from manyheads.parts.heads.mlp import Mlp
from manyheads.parts.heads.none import NoHead

__all__ = [
    "Head",
    "Hidden",
    "Linear",
    "LstmHead",
    "Mlp",
    "NoHead",
]
