"""What a run answers to the questions of a task's labelled dev examples, and where it is wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from manyheads.data.answers import read_answers
from manyheads.parts.metrics.answers import answer_values
from manyheads.storage.ragged import Ragged
from manyheads.tasks.task import Task


@dataclass
class AnswersFound:
    """Predictions and labels; texts are a question and the text that is searched."""

    task: Task
    predictions: Ragged
    labels: Ragged
    texts: list[tuple[str, ...]] = field(default_factory=list)  # empty where dev's texts are gone
    ids: list[str] = field(default_factory=list)

    def right(self, row: int) -> list[str]:
        """The answers of an example, without repeats; none where its text has none."""
        return list(dict.fromkeys(text for _, text in read_answers(self.labels[row])))

    def by_presence(self) -> list[dict[str, object]]:
        """How good answers are where there are some, and where there are none."""
        has_answer = np.array([bool(self.right(row)) for row in range(len(self.labels))])
        f1 = answer_values("answer-f1", self.predictions, self.labels, self.task)
        exact = answer_values("answer-exact-match", self.predictions, self.labels, self.task)
        given = np.array([bool(answer) for answer in self.task.kind.decode(self.predictions, self.task)])
        rows: list[dict[str, object]] = []
        for title, chosen in (("in the text", has_answer), ("not there", ~has_answer)):
            if chosen.any():
                row: dict[str, object] = {"answer": title, "examples": int(chosen.sum())}
                rows.append(
                    {**row, "f1": f1[chosen].mean(), "exact": exact[chosen].mean(), "answered": given[chosen].mean()}
                )
        return rows

    def wrong_rows(self) -> list[int]:
        """The examples whose answer has an F1 below 1, the most confident first."""
        f1 = answer_values("answer-f1", self.predictions, self.labels, self.task)
        described = self.task.kind.describe(self.predictions, self.task)
        return sorted(np.flatnonzero(f1 < 1).tolist(), key=lambda row: -described[row]["probability"])
