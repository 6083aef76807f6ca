"""log.jsonl: what a run did, a JSON record per line. The only reader and writer of the file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from manyheads.storage.files import write_text

Record = dict[str, Any]

LOG_FILE = "log.jsonl"  # in a run folder
TAIL_BYTES = 16_384  # more than the longest record that ends a log which is being written
# event → key of logs written by 0.1 → the key of today
RENAMED_KEYS = {
    "step": {"rate": "learning_rate", "rates": "learning_rates"},
    "rotation": {"resting": "paused"},
}


class RunLog:
    """The log of one run. A run that was killed may leave a last line that is cut off: it is passed over."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def append(self, record: Record) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def records(self) -> list[Record]:
        """All records so far, oldest first; the run may still be writing."""
        if not self.file.is_file():
            return []
        records = []
        for line in self.file.read_bytes().splitlines(keepends=True):
            record = _parse(line)
            if record is not None:
                records.append(record)
        return records

    def first(self) -> Record | None:
        """The first record, without reading the others."""
        if not self.file.is_file():
            return None
        with self.file.open("rb") as file:
            return _parse(file.readline())

    def last(self) -> Record | None:
        """The last record, without reading more than the end of the file."""
        if not self.file.is_file():
            return None
        with self.file.open("rb") as file:
            file.seek(max(0, self.file.stat().st_size - TAIL_BYTES))
            lines = file.read().splitlines(keepends=True)
        for line in reversed(lines):
            record = _parse(line)
            if record is not None:
                return record
        return None

    def cut_after(self, step: int) -> None:
        """Remove the records of later steps, which a resumed run takes, and logs, again; -1 removes all."""
        if not self.file.is_file():
            return
        lines = []
        for line in self.file.read_bytes().splitlines(keepends=True):
            record = _parse(line)
            if record is not None and record.get("step", math.inf) <= step and record["event"] != "end":
                lines.append(line.decode())
        write_text(self.file, "".join(lines))


def _parse(line: bytes) -> Record | None:
    """The record of a line, by today's keys; None where the line is cut off."""
    if not line.endswith(b"\n"):
        return None
    try:
        record: Record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    for old, new in RENAMED_KEYS.get(record.get("event", ""), {}).items():
        if old in record:
            record[new] = record.pop(old)
    return record
