"""The tasks' losses → one gradient. Importing registers every scalarizer."""

from manyheads.combine.sum import Sum

__all__ = ["Sum"]
