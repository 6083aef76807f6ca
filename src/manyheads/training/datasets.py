"""The tokenised examples of every task, split by split."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from manyheads.data.folds import LeftOut
from manyheads.data.source_visits import SourceVisits
from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.samplers import Batch

Round = list[Batch]  # the batches that are drawn together, at most one of each task


@dataclass(frozen=True)
class Datasets:
    """What a run trains on, evaluates and predicts: split → task → tokens."""

    train: dict[str, TaskTokens]
    dev: dict[str, TaskTokens]  # of active tasks only, as are the splits below
    selection: dict[str, TaskTokens]  # evaluated while training: dev, or what `evaluate.select` held out of train
    selection_rows: dict[str, np.ndarray]  # the rows of it that are evaluated
    test: dict[str, TaskTokens]
    train_rows: dict[str, np.ndarray] = field(
        default_factory=dict
    )  # of train that are evaluated: evaluate.train_examples
    notes: list[str] = field(default_factory=list)  # what was noticed when the files were read
    unlabelled: frozenset[str] = frozenset()  # tasks that also train on rows without a label, as teachers predict them
    visits: dict[str, SourceVisits] = field(default_factory=dict)  # of tasks whose sources have weights
    left_out: dict[str, LeftOut] = field(default_factory=dict)  # of tasks that are trained without a fold

    @property
    def selects_on_dev(self) -> bool:
        return self.selection is self.dev

    def pass_size(self, task: str) -> int:
        """How many examples a pass over a task's train data has."""
        return self.visits[task].size if task in self.visits else len(self.train[task])

    def usable(self, rounds: list[Round], paused: Collection[str] = ()) -> list[Round]:
        """The rounds without inactive and paused tasks, and without rows that have no label for their task, unless it
        learns from those too."""
        usable_rounds = []
        for batches in rounds:
            usable_batches = []
            for batch in batches:
                if batch.task in paused or batch.task not in self.dev:
                    continue
                labelled = self._labelled(batch)
                if len(labelled.indices):
                    usable_batches.append(labelled)
            usable_rounds.append(usable_batches)
        return usable_rounds

    def _labelled(self, batch: Batch) -> Batch:
        data = self.train[batch.task]
        if data.row_group is None:
            return batch
        return Batch(batch.task, batch.indices[self.trained_on(batch.task)[batch.indices]])

    def trained_on(self, task: str) -> np.ndarray:
        """[rows] which train rows a task learns from: those with a label, or all where its teachers know the others."""
        labelled = self.train[task].examples.labelled
        return np.ones_like(labelled) if task in self.unlabelled else labelled

    def fingerprint(self) -> dict[str, str]:
        """'TASK SPLIT' → a hash that changes with any text or label."""
        splits = {"train": self.train, "dev": self.dev}
        if not self.selects_on_dev:
            splits["select"] = {task: data for task, data in self.selection.items() if data is not self.dev[task]}
        fingerprints = {}
        for split, tasks in splits.items():
            for task, data in tasks.items():
                fingerprints[f"{task} {split}"] = data.fingerprint()
        return fingerprints


def of_model(data: dict[str, TaskTokens], model: ManyHeads) -> dict[str, TaskTokens]:
    """The same data for the tasks of a saved model, which are calibrated; those of a training are not."""
    return {name: split.of(model.tasks[name]) for name, split in data.items()}


def batches_of(rounds: list[Round]) -> list[Batch]:
    """All batches of a step."""
    return [batch for batches in rounds for batch in batches]
