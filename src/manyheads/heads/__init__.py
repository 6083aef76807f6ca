"""Features → outputs. Importing registers every head, and what may become of its outputs."""

from manyheads.heads.base import Head
from manyheads.heads.hidden import Hidden
from manyheads.heads.linear import Linear
from manyheads.heads.lstm import LstmHead
from manyheads.heads.mlp import Mlp
from manyheads.heads.none import NoHead
from manyheads.heads.output import Clamp, Output, Raw, Sigmoid, Similarity

__all__ = [
    "Clamp",
    "Head",
    "Hidden",
    "Linear",
    "LstmHead",
    "Mlp",
    "NoHead",
    "Output",
    "Raw",
    "Sigmoid",
    "Similarity",
]
