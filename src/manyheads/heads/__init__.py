"""Features → outputs. Importing registers every head."""

from manyheads.heads.linear import Linear

__all__ = ["Linear"]
