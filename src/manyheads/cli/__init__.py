"""The command line."""

from manyheads.cli.commands import main

__all__ = ["main"]
