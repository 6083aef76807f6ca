"""At most so many rows of a source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyheads.config.task import Source
from manyheads.data.dataset import Dataset
from manyheads.data.readers import source_name
from manyheads.seeding import generator


def limit_sources(train: Dataset, sources: Sequence[Source], name: str) -> tuple[Dataset, list[str]]:
    """At most `limit` rows of each source that has one, drawn at random and left in their order, and a note of each.

    They are the same for every seed. `name`: of the task, or of its rows.
    """
    is_kept = np.ones(len(train), dtype=bool)
    notes: list[str] = []
    for number, source in enumerate(sources):
        if source.limit is None:
            continue
        file = source_name(source, "train")
        rows = np.flatnonzero(train.files == number)
        beyond = generator(0, "part of source", file, name).permutation(rows)[source.limit :]
        if len(beyond):
            is_kept[beyond] = False
            notes.append(f"{file}: {source.limit:,} of {len(rows):,} rows are trained on (limit)")
    if not notes:
        return train, notes
    return train.take(np.flatnonzero(is_kept)), notes
