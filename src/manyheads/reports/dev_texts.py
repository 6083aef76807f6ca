"""The texts of dev examples: from the run folder that keeps them, else from the recipe's data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError
from manyheads.inference.dev_examples import read_dev_examples
from manyheads.tasks.load import load_tasks


class WithTexts(Protocol):
    """A task's predictions on dev, which get their texts here."""

    texts: list[tuple[str, ...]]
    ids: list[str]

    @property
    def labels(self) -> Any: ...


def add_texts(predictions: Mapping[str, WithTexts], folders: Sequence[Path], recipe: Recipe) -> list[str]:
    """Give every task the texts and ids of its dev examples. `folders` are run folders that may keep them.

    Returns notes: which texts the report cannot show, and why.
    """
    notes: list[str] = []
    without_texts = dict(predictions)
    for folder in folders:
        try:
            kept_examples = read_dev_examples(folder)
        except UserError as fault:
            notes.append(f"Texts are read from the recipe's data: {fault}")
            continue
        for task_name, examples in kept_examples.items():
            task = without_texts.get(task_name)
            if task is None or len(examples.ids) != len(task.labels) or task.ids not in ([], examples.ids):
                continue
            task.texts, task.ids = examples.texts, examples.ids
            del without_texts[task_name]
    if without_texts:
        notes += _add_texts_from_data(without_texts, recipe)
    return notes


def _add_texts_from_data(predictions: dict[str, WithTexts], recipe: Recipe) -> list[str]:
    """For runs of version 0.1, which kept no texts. Data counts only if its labels are those that the run saw."""
    try:
        loaded = load_tasks(recipe)
    except UserError as fault:
        return [f"Texts are not shown, because the data cannot be read: {fault}"]
    notes = []
    for task_name, task in predictions.items():
        dev = loaded[task_name].dev
        if not isinstance(dev.labels, np.ndarray) or not np.array_equal(dev.labels[dev.labelled], task.labels):
            notes.append(f"Texts of {task_name} are not shown: its dev data has changed since the run.")
            continue
        examples = dev.take(dev.labelled_rows)
        columns = [column.to_pylist() for column in examples.texts]
        task.texts = list(zip(*columns, strict=True))
        task.ids = examples.ids.to_pylist()
    return notes
