"""Rows from csv, tsv, jsonl, parquet, txt, tree and CoNLL files (each optionally .gz), `datasets`, and the demo.

Every reader yields chunks of raw rows with their line numbers, so that a large file is never held as Python
objects at once and a bad row can be pointed at.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, get_args

from manyheads.config.task import TREE_KEYS, FileFormat, Source
from manyheads.data.chunk import CHUNK, Chunk, Row, in_chunks, open_bytes
from manyheads.data.conll import ENDINGS as CONLL_ENDINGS
from manyheads.data.conll import read_conll
from manyheads.data.delimited import read_delimited, read_lines
from manyheads.data.demo import demo_rows
from manyheads.data.trees import COLUMNS as TREE_COLUMNS
from manyheads.data.trees import read_trees
from manyheads.errors import UserError

if TYPE_CHECKING:
    import datasets

FORMATS: tuple[str, ...] = get_args(FileFormat)


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
            yield from _read_file(path, source)
        except UnicodeDecodeError:
            raise _not_utf8(path) from None
        except (OSError, EOFError, zlib.error) as error:
            raise UserError(
                f"{path}: cannot be read: {error}. Expected {file_format(source, path)} in UTF-8.",
                code="unreadable-file",
            ) from None


def _read_file(path: Path, source: Source) -> Iterator[Chunk]:
    form = file_format(source, path)
    if form == "trees":
        if source.quoting is not None:
            raise _not_for(path, form, "quoting")
        return read_trees(path, source)
    tree_keys = list(source.changed(TREE_KEYS))
    if tree_keys:
        raise UserError(
            f"{path}: `{tree_keys[0]}` is for bracketed trees, not for {form} files; is this file of `format: trees`?",
            code="not-trees",
        )
    if form == "conll":
        if source.quoting is not None:
            raise _not_for(path, form, "quoting")
        return read_conll(path, source)
    if form in ("csv", "tsv"):
        return read_delimited(path, source, form)
    if form == "txt":
        if source.quoting == "csv":
            raise _not_for(path, form, "quoting")
        return read_lines(path, source)
    for key in ("columns", "quoting"):
        if getattr(source, key) is not None:
            raise _not_for(path, form, key)
    if form == "jsonl":
        return _read_jsonl(path)
    return _read_parquet(path)


def _not_for(path: Path, form: str, key: str) -> UserError:
    return UserError(
        f"{path}: `{key}` is not for {form} files. Write it at the sources that need it, not at the task; or is this "
        "file of another `format`?",
        code="not-delimited",
    )


def _not_utf8(path: Path) -> UserError:
    """Where the file is not UTF-8, and how to make it so."""
    location, encoding = str(path), "WINDOWS-1252"
    with open_bytes(path) as raw:
        for number, line in enumerate(raw, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                location = f"{path}:{number}: byte 0x{line[error.start]:02x}"
                if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                    encoding = "UTF-16"
                break
    name = path.name.removesuffix(".gz")
    return UserError(
        f"{location} is not UTF-8. Convert the file: `iconv -f {encoding} -t UTF-8 {name} > utf8-{name}`, or from "
        "whatever encoding it has.",
        code="unreadable-file",
    )


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


def file_format(source: Source, path: Path) -> str:
    """What the source says it is, else by the file's ending."""
    if source.format is not None:
        return source.format
    ending = _ending(path.name)
    if ending not in FORMATS:
        raise UserError(
            f"{path}: unknown file format '.{ending}'. Known: {', '.join(FORMATS)}, each optionally .gz. "
            "Say which it is, for example `format: tsv`.",
            code="unknown-format",
        )
    return ending


def _ending(name: str) -> str:
    ending = Path(name.removesuffix(".gz")).suffix.lstrip(".").lower()
    return "conll" if ending in CONLL_ENDINGS else ending


def is_lines(source: Source) -> bool:
    """Whether it is a txt file that says nothing of its columns: a text per line, which has no name of its own."""
    return _is_unnamed(source, "txt")


def _is_unnamed(source: Source, form: str) -> bool:
    """Whether it is a file of that format that says nothing of its columns."""
    if source.file is None or source.columns is not None:
        return False
    return (source.format or _ending(source.file)) == form


def name_lines(source: Source, text: tuple[str, ...], label: str | tuple[str, ...] | None = None) -> Source:
    """A txt file that says nothing of its columns has the texts that are asked for, a tab between those of a pair. So
    have trees, and the label."""
    if _is_unnamed(source, "trees") and len(text) == 1 and not isinstance(label, tuple):
        return source.model_copy(update={"columns": [text[0], label or TREE_COLUMNS[1]]})
    if not is_lines(source):
        return source
    layout: dict[str, Any] = {"columns": list(text), "format": "txt"}
    if len(text) > 1:
        layout.update(format="tsv", quoting="none")
    return source.model_copy(update=layout)


def _read_jsonl(path: Path) -> Iterator[Chunk]:
    columns: list[str] = []
    with open_bytes(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig") as text:
        for chunk in in_chunks(columns, _json_rows(text, columns)):
            if not columns:
                raise UserError(f"{path}: no JSON object in it; expected one in each line.", code="bad-jsonl")
            _even(chunk.cells, len(columns))
            yield chunk


def _json_rows(text: TextIO, columns: list[str]) -> Iterator[Row]:
    """Adds to `columns` the keys that are new."""
    for number, line in enumerate(text, start=1):
        if not line.strip():
            continue
        try:
            row = _json_object(line)
        except ValueError as fault:
            yield number, None, str(fault)
            continue
        columns.extend(key for key in row if key not in columns)
        yield number, [row.get(key) for key in columns], ""


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


def _even(rows: list[list[Any] | None], width: int) -> None:
    """JSON objects need not have the same keys; rows read before a key was first seen are shorter."""
    for row in rows:
        if row is not None:
            row.extend([None] * (width - len(row)))


def _read_parquet(path: Path) -> Iterator[Chunk]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_bytes(path) as raw:
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
    data = _load_hub(source, root, split)
    decoders = _class_decoders(data.features)
    for start in range(0, len(data), CHUNK):
        batch = data[start : start + CHUNK]
        for name, decode in decoders.items():
            batch[name] = list(map(decode, batch[name]))
        rows: list[list[Any] | None] = list(map(list, zip(*batch.values(), strict=True)))
        yield Chunk(list(batch), rows, list(range(start + 1, start + 1 + len(rows))), [])


def _load_hub(source: Source, root: Path, split: str) -> datasets.Dataset:
    import datasets

    local = root / str(source.hub)
    name = str(local) if local.is_dir() else str(source.hub)
    options = {"split": split, "revision": source.revision}
    try:
        return datasets.load_dataset(name, source.config, **options)
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


def _class_decoders(features: datasets.Features) -> dict[str, Callable[[Any], Any]]:
    """How the columns that hold numbers of classes, or lists of them, are read as names."""
    from datasets import ClassLabel

    decoders: dict[str, Callable[[Any], Any]] = {}
    for name, feature in features.items():
        inner = getattr(feature, "feature", None)
        if isinstance(feature, ClassLabel):
            decoders[name] = partial(_class_name, feature)
        elif isinstance(inner, ClassLabel):
            decoders[name] = partial(_class_names, inner)
    return decoders


def _class_name(feature: Any, number: int | None) -> str | None:
    if number is None or number < 0:  # -1 is how the hub writes 'no label'
        return None
    return feature.int2str(number)


def _class_names(feature: Any, numbers: list[int | None] | None) -> list[str | None] | None:
    return None if numbers is None else [_class_name(feature, number) for number in numbers]


def _read_demo(task: str, split: str) -> Iterator[Chunk]:
    rows = demo_rows(task, split)
    cells: list[list[Any] | None] = [list(row.values()) for row in rows]
    yield Chunk(list(rows[0]), cells, list(range(1, len(rows) + 1)), [])
