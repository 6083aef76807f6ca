"""Rows of cells as csv: the one writer of every csv file and csv output."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """One line per row, ended by "\\n"; a cell with a comma, a quote or a line end stands in quotes."""
    lines: list[str] = []
    for row in rows:
        buffer = io.StringIO()
        # before Python 3.13 a writer quotes only those line ends that its own terminator has: so "\r\n" here
        csv.writer(buffer, lineterminator="\r\n").writerow(row)
        lines.append(buffer.getvalue().removesuffix("\r\n") + "\n")
    return "".join(lines)
