"""Rows that training would refuse, files with odd headers, texts with odd characters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from manyheads.checks.findings import Finding, Severity, count_finding
from manyheads.checks.split import SHOWN_LETTERS, Split, quote_texts
from manyheads.config.task import Source
from manyheads.data.chunk import open_bytes
from manyheads.data.labels import BadLabel, LabelReader
from manyheads.data.readers import file_format, find_file, name_lines, read_chunks, source_name
from manyheads.data.table import BadRow, Columns

BLANK_FIRST_NAME = re.compile(r' *("" *)?[,;\t]')  # a header line whose first cell is empty
ODD_TEXTS = (
    ("doubled-quotes", 'keep{s} a doubled quote "" (unbalanced, or escaped twice)', re.compile('""')),
    ("replacement-character", "{have} a U+FFFD, left by a wrong decoding", re.compile("\ufffd")),
    ("control-character", "{have} a control character", re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")),
)  # control characters: all but tab and line ends
BAD_ROWS = {
    "no-label": "{have} no label",
    "impossible-label": "{have} an impossible label",
    "empty-text": "{have} an empty text",
    "malformed-row": "{are} malformed",
}


def find_bad_rows(
    split: Split, reader: LabelReader | None, severity: Severity, no_label: Severity
) -> Iterator[Finding]:
    """What training would refuse, by reason. Fills `usable_rows` with the rows that it would take."""
    table = split.table
    bad_rows: dict[str, list[BadRow]] = {kind: [] for kind in BAD_ROWS}
    for bad_row in table.bad:
        kind = "malformed-row"
        if bad_row.reason.startswith("empty text"):
            kind = "empty-text"
        bad_rows[kind].append(bad_row)
    faults = {label: _label_fault(label, reader) for label in set(split.labels)}
    for row in range(len(split.texts)):
        label = ""
        if split.labels:
            label = split.labels[row]
        fault = faults.get(label)
        if fault is None:
            split.usable_rows.append(row)
        else:
            kind = "no-label"
            if label:
                kind = "impossible-label"
            bad_rows[kind].append(BadRow(table.files[row], table.lines[row], fault))
    for kind, text in BAD_ROWS.items():
        kind_severity = severity
        if kind == "no-label":
            kind_severity = no_label
        share = (len(bad_rows[kind]), split.total)
        examples = (f"{table.sources[bad.file]}:{bad.line}: {bad.reason}" for bad in bad_rows[kind])
        text = f"rows of {split.name} {text}"
        yield from count_finding(split.task, split.name, kind, kind_severity, share, text, examples)
    if not split.usable_rows:
        yield Finding(split.task, split.name, "no-rows", "error", 0, split.total, f"{split.name} has no usable row.")


def _label_fault(label: str, reader: LabelReader | None) -> str | None:
    """What is wrong with a label; where labels are not understood, only whether there is one."""
    if reader is None:
        if label:
            return None
        return "no label"
    try:
        reader.read(label)
    except BadLabel as fault:
        return str(fault)
    return None


def check_files(split: Split, sources: list[Source], root: Path, columns: Columns) -> Iterator[Finding]:
    """What only the raw cells show: surrounding spaces, and headers that do not quite fit."""
    padded: list[tuple[str, str]] = []
    for task_source in sources:
        source = name_lines(task_source, columns.text, columns.label)
        name = source_name(source, split.name)
        header_is_checked = False
        for chunk in read_chunks(source, root, split.name):
            if not header_is_checked:
                header_is_checked = True
                fault = _header_fault(chunk.columns, source, root)
                if fault is not None:
                    yield Finding(split.task, split.name, "header", "note", 1, 1, f"{name}:1: {fault}.")
            indices = [chunk.columns.index(column) for column in columns.text if column in chunk.columns]
            for row, line in zip(chunk.cells, chunk.lines, strict=True):
                cells = _text_cells(row, indices)
                texts = [cell for cell in cells if isinstance(cell, str) and cell != cell.strip()]
                if texts:
                    padded.append((f"{name}:{line}", texts[0]))
    share = (len(padded), split.total)
    text = f"rows of {split.name} {{have}} spaces around a text; they are stripped when read"
    examples = (f"{location}: {_quote_padded(text)}" for location, text in padded)
    yield from count_finding(split.task, split.name, "surrounding-spaces", "note", share, text, examples)


def _quote_padded(text: str) -> str:
    """Cut so that the spaces are seen."""
    if len(text) > SHOWN_LETTERS and not text[0].isspace():
        text = f"…{text[1 - SHOWN_LETTERS :]}"
    return quote_texts((text,))


def _text_cells(row: list[object] | None, indices: list[int]) -> list[object]:
    """Nothing of a row that could not be read."""
    if not row:
        return []
    return [row[index] for index in indices]


def _header_fault(columns: list[str], source: Source, root: Path) -> str | None:
    path = None
    if source.file is not None and source.columns is None:
        path = find_file(source, root)
    if path is None or file_format(source, path) not in ("csv", "tsv"):
        return None
    with open_bytes(path) as file:
        first_line = file.readline()
    header = first_line.decode("utf-8-sig", errors="replace")
    if not columns[0] and not BLANK_FIRST_NAME.match(header):  # then it was the reader that put the blank name there
        return "the header names one column fewer than the rows have; the first is taken for an unnamed index"
    if columns[0] and "" in columns:
        return f"the header is shifted: '{columns[0]}' stands before the unnamed index column, so look at ids and texts"
    return None


def find_odd_texts(split: Split) -> Iterator[Finding]:
    for kind, text, pattern in ODD_TEXTS:
        rows: list[int] = []
        for row, texts in enumerate(split.texts):
            if any(map(pattern.search, texts)):
                rows.append(row)
        share = (len(rows), len(split.texts))
        text = f"rows of {split.name} {text}"
        yield from count_finding(split.task, split.name, kind, "warning", share, text, split.quotes(rows))
