"""The command line."""

from manyheads.cli.app import main

__all__ = ["main"]
