"""Rows from csv, tsv, jsonl and parquet files (each optionally .gz), from `datasets`, and from the demo corpus.

Every reader yields chunks of raw rows with their line numbers, so that a large file is never held as Python
objects at once and a bad row can be pointed at.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from manyheads.config.task import Source
from manyheads.data.demo import demo_rows
from manyheads.errors import UserError

CHUNK = 10_000
FORMATS = ("csv", "tsv", "jsonl", "parquet")


@dataclass(frozen=True)
class Chunk:
    """Some rows of one source. `cells[i]` holds a row in the order of `columns`; None where it is malformed."""

    columns: list[str]
    cells: list[list[Any] | None]
    lines: list[int]
    faults: list[str]  # one reason per malformed row, in order


def read_chunks(source: Source, root: Path, default_split: str) -> Iterator[Chunk]:
    """The rows of a source, in order."""
    if source.demo is not None:
        yield from _read_demo(source.demo, split_name(source, default_split))
    elif source.hub is not None:
        yield from _read_hub(source, root, split_name(source, default_split))
    else:
        path = find_file(source, root)
        if path is None:
            raise UserError(f"{root / str(source.file)}: no such file.", code="no-such-file")
        try:
            yield from _READERS[file_format(path)](path)
        except (UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
            raise UserError(
                f"{path}: cannot be read: {error}. Expected {file_format(path)} in UTF-8.", code="unreadable-file"
            ) from None


def find_file(source: Source, root: Path) -> Path | None:
    """The source's file, or the same one compressed; None where there is neither, or it is no file."""
    plain = root / str(source.file)
    for path in (plain, plain.with_name(f"{plain.name}.gz")):
        if path.is_file():
            return path
    return None


def source_name(source: Source, default_split: str) -> str:
    """What messages call a source."""
    if source.file is not None:
        return source.file
    split = split_name(source, default_split)
    if source.demo is not None:
        return f"demo:{source.demo}/{split}"
    return f"hub:{source.hub}/{split}"


def split_name(source: Source, default_split: str) -> str:
    """The split that is read; the hub's word for dev is validation."""
    if source.split:
        return source.split
    if source.hub is not None and default_split == "dev":
        return "validation"
    return default_split


def file_format(path: Path) -> str:
    """'csv', 'tsv', 'jsonl' or 'parquet', by the file's ending without .gz."""
    ending = Path(path.name.removesuffix(".gz")).suffix.lstrip(".").lower()
    if ending not in FORMATS:
        raise UserError(
            f"{path}: unknown file format '.{ending}'. Known: {', '.join(FORMATS)}, each optionally .gz.",
            code="unknown-format",
        )
    return ending


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    return path.open("rb")


def _read_csv(path: Path) -> Iterator[Chunk]:
    csv.field_size_limit(sys.maxsize)
    with _open(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
        first = text.readline()
        if not first.strip():
            raise UserError(f"{path}: empty; expected a header line with column names.", code="empty-file")
        delimiter = "\t" if file_format(path) == "tsv" else max(",\t;", key=first.count)
        text.seek(0)
        reader = csv.reader(text, delimiter=delimiter, strict=True)  # a stray quote must not swallow rows
        columns = [name.strip() for name in next(reader)]
        rows: list[list[Any] | None] = []
        lines: list[int] = []
        faults: list[str] = []
        line = reader.line_num + 1
        first_row = True
        try:
            for cells in reader:
                if cells:  # a blank line is no row
                    if first_row and len(cells) == len(columns) + 1:
                        columns = ["", *columns]  # the header does not name the index column before the others
                    first_row = False
                    if len(cells) == len(columns):
                        rows.append(cells)
                    else:
                        rows.append(None)
                        faults.append(f"{len(cells)} cells where the header has {len(columns)}")
                    lines.append(line)
                line = reader.line_num + 1
                if len(rows) == CHUNK:
                    yield Chunk(columns, rows, lines, faults)
                    rows, lines, faults = [], [], []
        except csv.Error as error:
            raise UserError(
                f"{path}:{line}: not valid csv: {error}. Is a quote mark open in this row? Inside a quoted cell it is "
                'written twice ("").',
                code="bad-csv",
            ) from None
        yield Chunk(columns, rows, lines, faults)


def _read_jsonl(path: Path) -> Iterator[Chunk]:
    columns: list[str] = []
    rows: list[list[Any] | None] = []
    lines: list[int] = []
    faults: list[str] = []
    with _open(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig") as text:
        for number, line in enumerate(text, start=1):
            if not line.strip():
                continue
            try:
                row = _json_object(line)
            except ValueError as fault:
                rows.append(None)
                faults.append(str(fault))
            else:
                columns.extend(key for key in row if key not in columns)
                rows.append([row.get(key) for key in columns])
            lines.append(number)
            if len(rows) == CHUNK:
                yield Chunk(list(columns), _even(rows, len(columns)), lines, faults)
                rows, lines, faults = [], [], []
    if not columns:
        raise UserError(f"{path}: no JSON object in it; expected one in each line.", code="bad-jsonl")
    yield Chunk(list(columns), _even(rows, len(columns)), lines, faults)


def _json_object(line: str) -> dict[str, Any]:
    """A ValueError says what is wrong with the line."""
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    if "\\ud" in line.lower():  # JSON can write half a character, which no text may hold
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("half of a surrogate pair in a text") from None
    return row


def _even(rows: list[list[Any] | None], width: int) -> list[list[Any] | None]:
    """JSON objects need not have the same keys; rows read before a key was first seen are shorter."""
    for row in rows:
        if row is not None:
            row.extend([None] * (width - len(row)))
    return rows


def _read_parquet(path: Path) -> Iterator[Chunk]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with _open(path) as raw:
            file = pq.ParquetFile(io.BytesIO(raw.read()) if path.suffix == ".gz" else raw)
            line = 1
            for batch in file.iter_batches(batch_size=CHUNK):
                columns = [column.to_pylist() for column in batch.columns]
                count = batch.num_rows
                rows: list[list[Any] | None] = list(map(list, zip(*columns, strict=True)))
                yield Chunk(batch.schema.names, rows, list(range(line, line + count)), [])
                line += count
            if line == 1:
                yield Chunk(file.schema_arrow.names, [], [], [])
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path}: not a valid parquet file: {str(error).strip()}", code="bad-parquet") from None


def _read_hub(source: Source, root: Path, split: str) -> Iterator[Chunk]:
    import datasets

    local = root / str(source.hub)
    name = str(local) if local.is_dir() else str(source.hub)
    options = {"split": split, "revision": source.revision}
    try:
        data = datasets.load_dataset(name, source.config, **options)
    except Exception as error:  # `datasets` raises a dozen kinds, all of them about the name or the network
        location = f"hub:{source.hub}"
        if source.config:
            location += f" (configuration {source.config})"
        reason = str(error).strip().split("\n")[0]
        raise UserError(
            f"{location}: split '{split}' cannot be loaded: {reason}\n"
            "Check name, configuration and split; without network only a local folder or a cached data set works.",
            code="no-hub-dataset",
        ) from None
    classes = {name: feature for name, feature in data.features.items() if isinstance(feature, datasets.ClassLabel)}
    for start in range(0, len(data), CHUNK):
        batch = data[start : start + CHUNK]
        for name, feature in classes.items():
            batch[name] = [_class_name(feature, number) for number in batch[name]]
        rows: list[list[Any] | None] = list(map(list, zip(*batch.values(), strict=True)))
        yield Chunk(list(batch), rows, list(range(start + 1, start + 1 + len(rows))), [])


def _class_name(feature: Any, number: int | None) -> str | None:
    if number is None or number < 0:  # -1 is how the hub writes 'no label'
        return None
    return feature.int2str(number)


def _read_demo(task: str, split: str) -> Iterator[Chunk]:
    rows = demo_rows(task, split)
    cells: list[list[Any] | None] = [list(row.values()) for row in rows]
    yield Chunk(list(rows[0]), cells, list(range(1, len(rows) + 1)), [])


_READERS = {"csv": _read_csv, "tsv": _read_csv, "jsonl": _read_jsonl, "parquet": _read_parquet}
