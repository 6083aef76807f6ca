"""The command line."""

from manyheads.cli.main import main

__all__ = ["main"]
