"""Features → outputs. Importing registers every head."""

from manyheads.heads.hidden import Hidden
from manyheads.heads.linear import Linear
from manyheads.heads.mlp import Mlp

__all__ = ["Hidden", "Linear", "Mlp"]
