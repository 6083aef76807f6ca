"""What a run chooses among the candidates of a task's labelled dev examples, and where it is wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from manyheads.storage.ragged import Ragged
from manyheads.tasks.task import Task


@dataclass
class Choices:
    """Predictions and labels; texts are a question, or its context, and all candidates as one text."""

    task: Task
    predictions: Ragged  # [candidates]
    labels: np.ndarray  # [examples]
    texts: list[tuple[str, ...]] = field(default_factory=list)  # empty where dev's texts are gone
    ids: list[str] = field(default_factory=list)

    @property
    def chosen(self) -> np.ndarray:
        """[examples] the number of the likeliest candidate."""
        return self.task.kind.decode(self.predictions, self.task)

    def wrong_rows(self) -> list[int]:
        """The examples with a wrong choice, the most confident first."""
        chosen = self.chosen
        wrong = np.flatnonzero(chosen != self.labels).tolist()
        return sorted(wrong, key=lambda row: -float(self.predictions[row][chosen[row]]))

    def by_count(self) -> list[dict[str, object]]:
        """How often the choice is right, by how many candidates there are."""
        counts = self.predictions.lengths.tolist()
        totals = Counter(counts)
        right = Counter(np.array(counts)[self.chosen == self.labels].tolist())
        rows: list[dict[str, object]] = []
        for count in sorted(totals):
            row: dict[str, object] = {"candidates": count, "examples": totals[count]}
            rows.append({**row, "accuracy": right[count] / totals[count], "by chance": 1 / count})
        return rows
