"""`python -m manyheads`."""

from manyheads.cli.main import main

main()
