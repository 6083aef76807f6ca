"""`python -m manyheads`."""

from manyheads.cli.commands import main

main()
