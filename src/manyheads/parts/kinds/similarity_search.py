"""Texts that match, found among those of all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from manyheads import registry
from manyheads.config.label_text import as_number
from manyheads.data.labels import BadLabel, LabelReader, LabelType, split_classes
from manyheads.parts.metrics.ranks import RANK, WEIGHT
from manyheads.registry import register
from manyheads.storage.ragged import Ragged
from manyheads.tasks.kind import Kind, LabelDeclaration, LabelStatistics

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

REFUSED_KEYS = ("labels", "range", "separator", "scheme")


@register("kinds", "similarity-search")
class SimilaritySearch(Kind):
    """For a query the right answer among all: each text has a vector of its own, and near vectors match.

    Rows are (query, right answer) and may have wrong answers. Labels: 1, or a teacher's scores of a row's answers
    (ragged). Predictions: [examples, 1] the cosine of query and right answer; where data with labels is predicted,
    [examples, 5] with the rank of the answer, see parts/metrics/ranks.py.
    Relations: `regression` where pairs have a score, and are not searched for.
    """

    name = "similarity-search"
    called = "a search by similarity"
    label_type: ClassVar[LabelType] = "match"
    needs_labels = False
    has_classes = False
    exclusive = False
    searches = True
    hub_task = "sentence-similarity"
    encoding = "bi-vectors"
    figures: ClassVar[tuple[str, ...]] = ()

    # --- labels ---------------------------------------------------------------------------------------------------

    def recognise(self, labels: set[str], declared: LabelDeclaration) -> int:
        return 0  # by the columns: see data/recognise.py

    def make_reader(self, labels: set[str], declared: LabelDeclaration) -> LabelReader:
        for key in REFUSED_KEYS:
            if getattr(declared, key) is not None:
                raise ValueError(f"'{key}' is not for {self.called}; remove it or set its 'kind'")
        return LabelReader(self.name, scores=declared.scores)

    def read_label(self, label: str, reader: LabelReader) -> list[float]:
        if not reader.scores:
            return [1.0]
        words = split_classes(label, None)
        numbers = [number for word in words if (number := as_number(word)) is not None]
        if not numbers or len(numbers) < len(words):
            raise BadLabel(f"scores '{' '.join(words)}': expected a number for each answer, or the margin of one")
        return numbers

    def unlabelled(self, rows: int, reader: LabelReader) -> Any:
        return Ragged.from_rows([[]] * rows, np.float64)

    def statistics(self, labels: Any, reader: LabelReader, scale: str) -> LabelStatistics:
        return LabelStatistics()

    # --- defaults -------------------------------------------------------------------------------------------------

    def default_loss(self, reader: LabelReader) -> str:
        return "margin-mse" if reader.scores else "multiple-negatives"

    def default_metrics(self, task: Task) -> tuple[str, ...]:
        return ("mrr", "recall-at-k", "ndcg-at-k")

    def why_parts_incompatible(self, task: Task) -> list[tuple[str, str]]:
        reasons: list[tuple[str, str]] = []
        if registry.find("encodings", task.encoding.name).factory.gives != "vectors":
            reason = f"'{task.encoding.name}' gives no vector per text, which {self.called} needs; use 'bi-vectors'."
            reasons.append(("encoding", reason))
        elif task.output.name != "raw":
            reasons.append(("output", f"output '{task.output.name}' is not for vectors; leave it out."))
        if task.symmetric:
            reason = "a query and its answer have an order; use the option `symmetric` of 'multiple-negatives'."
            reasons.append(("symmetric", reason))
        return reasons

    def reads_similarity(self, task: Task) -> bool:
        return False

    # --- outputs and predictions ----------------------------------------------------------------------------------

    def outputs(self, task: Task) -> int:
        raise AssertionError("the loss says how wide vectors are")

    def activate(self, outputs: Any) -> Any:
        return outputs

    def measured(self, predictions: Any, labels: Any) -> tuple[Any, Any]:
        return predictions, labels

    def decode(self, predictions: np.ndarray, task: Task) -> np.ndarray:
        return predictions

    def describe(self, predictions: np.ndarray, task: Task) -> list[dict[str, Any]]:
        """{'prediction': the cosine, 'rank': where the right answer stands, where that is known}"""
        described: list[dict[str, Any]] = []
        for row in predictions:
            line: dict[str, Any] = {"prediction": float(row[0])}
            if len(row) > 1:
                line["rank"] = int(row[RANK])
            described.append(line)
        return described

    def plain_loss(self, predictions: np.ndarray, labels: Any, task: Task) -> float:
        """Mean ln(rank) of right answers, each query counting once; 0 where all come first."""
        return float(np.average(np.log(predictions[:, RANK]), weights=predictions[:, WEIGHT]))

    def why_not_taught_by(self, teacher: Task, task: Task) -> str | None:
        return f"{self.called} learns from no teacher's predictions; give scores as the label, for `loss: margin-mse`"

    # --- for people -----------------------------------------------------------------------------------------------

    def summary(self, task: Task) -> str:
        scores = ", with scores" if task.labels.scores else ""
        return f"{self.name}: {task.train_examples:,} pairs that match{scores}"

    def label_text(self, value: Any, task: Task) -> str:
        return " ".join(f"{number:g}" for number in value)
