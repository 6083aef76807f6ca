"""`python -m manyheads`."""

from manyheads.cli.app import main

main()
