"""The one csv writer: what it writes is what any csv reader reads."""

from __future__ import annotations

import csv
import io

from manyheads.storage.csv_text import csv_text


def test_cells_are_quoted_only_where_they_must_be() -> None:
    assert csv_text([("id", "label"), (1, 0.5), ("a b", None)]) == "id,label\n1,0.5\na b,\n"
    assert csv_text([("a,b", 'say "x"')]) == '"a,b","say ""x"""\n'


def test_line_ends_within_cells_survive() -> None:
    rows = [["x\ny", "x\ry"], ["x\r\ny", " spaces "], ["", "'"]]
    text = csv_text(rows)
    assert list(csv.reader(io.StringIO(text, newline=""))) == rows
    assert text.startswith('"x\ny","x\ry"\n')


def test_no_rows_are_an_empty_text() -> None:
    assert csv_text([]) == ""
