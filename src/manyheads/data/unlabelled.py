"""Rows without labels behind those that have them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from manyheads.data.dataset import Dataset
from manyheads.data.labels import LabelReader
from manyheads.data.table import Table
from manyheads.storage.ragged import join_columns
from manyheads.storage.strings import Strings


def append_unlabelled(labelled: Dataset, unlabelled: Dataset, reader: LabelReader) -> Dataset:
    """All rows of both, in memory; those of the second have no label for the task."""
    assert labelled.labels is not None
    texts = [_joined(*columns) for columns in zip(labelled.texts, unlabelled.texts, strict=True)]
    files = [_files(labelled), _files(unlabelled) + len(labelled.raw.sources)]
    raw = Table(
        texts=tuple(texts),
        labels=None,  # as words; they have been read
        ids=_joined(labelled.ids, unlabelled.ids),
        lines=np.concatenate([labelled.lines, unlabelled.lines]),
        files=np.concatenate(files),
        sources=(*labelled.raw.sources, *unlabelled.raw.sources),
        bad=[],
        indents=_joined_indents(labelled, unlabelled),
    )
    count = len(labelled) + len(unlabelled)
    labels = join_columns([labelled.labels, reader.unlabelled(len(unlabelled))], reader.unlabelled(count))
    return Dataset(raw, labels, bad=labelled.bad)


def _joined(first: Strings, second: Strings) -> Strings:
    pieces = [*first.parts(), *second.parts()]
    return Strings(pa.chunked_array(pieces, type=pa.large_string()).combine_chunks())


def _joined_indents(first: Dataset, second: Dataset) -> np.ndarray | None:
    if first.indents is None or second.indents is None:
        return None
    return np.concatenate([first.indents, second.indents])


def _files(dataset: Dataset) -> np.ndarray:
    if dataset.row_numbers is None:
        return dataset.raw.files
    return dataset.raw.files[dataset.row_numbers]
