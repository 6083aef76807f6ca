"""A run's dev examples, kept as dev.parquet in its folder: a report reads no training or dev file again."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from manyheads.errors import UserError
from manyheads.model.task_tokens import TaskTokens

FILE_NAME = "dev.parquet"
SCHEMA = pa.schema([("task", pa.string()), ("id", pa.large_string()), ("texts", pa.list_(pa.large_string()))])
EXAMPLES_PER_WRITE = 50_000  # so that a large dev set is never held in memory twice


@dataclass(frozen=True)
class DevExamples:
    """A task's labelled dev examples, in the order of its predictions in dev.safetensors."""

    ids: list[str] = field(default_factory=list)
    texts: list[tuple[str, ...]] = field(default_factory=list)


def write_dev_examples(folder: Path, dev: dict[str, TaskTokens]) -> Path:
    """Write ids and texts of every task's labelled dev examples into a run folder, whole or not at all."""
    file = folder / FILE_NAME
    unfinished = folder / f".{FILE_NAME}.new"
    with pq.ParquetWriter(unfinished, SCHEMA, compression="zstd") as writer:
        for task_name, split in dev.items():
            rows = split.examples.labelled_rows
            for start in range(0, len(rows), EXAMPLES_PER_WRITE):
                piece = split.examples.take(rows[start : start + EXAMPLES_PER_WRITE])
                columns = [column.to_pylist() for column in piece.texts]
                texts = list(zip(*columns, strict=True))
                cells = {"task": [task_name] * len(texts), "id": piece.ids.to_pylist(), "texts": texts}
                writer.write_table(pa.table(cells, schema=SCHEMA))
    unfinished.replace(file)
    return file


def read_dev_examples(folder: Path) -> dict[str, DevExamples]:
    """The dev examples of a run folder by task; empty where version 0.1 wrote the run."""
    file = folder / FILE_NAME
    if not file.is_file():
        return {}
    try:
        table = pq.read_table(file, schema=SCHEMA)
        cells = table.to_pydict()
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{file}: damaged: {error}.", code="damaged-file") from None
    examples: dict[str, DevExamples] = {}
    for task_name, example_id, texts in zip(cells["task"], cells["id"], cells["texts"], strict=True):
        task_examples = examples.setdefault(task_name, DevExamples())
        task_examples.ids.append(example_id)
        task_examples.texts.append(tuple(texts))
    return examples
