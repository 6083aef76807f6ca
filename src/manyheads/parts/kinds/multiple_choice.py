"""One of a row's candidates is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from manyheads.data.choices import CALLED, candidate_spans, label_way, read_label, spell_label
from manyheads.data.dataset import Dataset
from manyheads.data.labels import BadLabel, LabelReader, LabelType
from manyheads.data.words import TextWords
from manyheads.parts.kinds.calibration import SMALLEST_PROBABILITY, apply_temperature, fit_temperature
from manyheads.registry import register
from manyheads.storage.ragged import Ragged
from manyheads.tasks.kind import Calibration, Kind, LabelDeclaration, LabelStatistics

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("kinds", "multiple-choice")
class MultipleChoice(Kind):
    """Exactly one of a row's candidates is right; rows may have different numbers of them.

    Labels: the number of the right candidate [examples]. Predictions: a probability of each candidate (ragged), which
    add up to 1 over a row's. Each (question, candidate) is an encoder input; the head gives it one score.
    Relations: `classification` where every text has the same answers to choose from.
    """

    name = "multiple-choice"
    called = "a multiple choice"
    label_type: ClassVar[LabelType] = "candidate"
    per_candidate = True
    hub_task = "multiple-choice"
    has_classes = False
    figures: ClassVar[tuple[str, ...]] = ()

    # --- labels ---------------------------------------------------------------------------------------------------

    def recognise(self, labels: set[str], declared: LabelDeclaration) -> int:
        return 0  # by the columns: see `recognise_choices`

    def make_reader(self, labels: set[str], declared: LabelDeclaration) -> LabelReader:
        for key in ("labels", "range", "separator", "scheme"):
            if getattr(declared, key) is not None:
                raise ValueError(f"'{key}' is not for {self.called}; remove it or set its 'kind'")
        if not labels:
            raise ValueError("no row of train says which candidate is right")
        return LabelReader(self.name, candidate_labels=label_way(labels))

    def read_label(self, label: str, reader: LabelReader) -> int:
        if not label:
            raise BadLabel("no label")
        return read_label(label, reader.candidate_labels or "index")

    def unlabelled(self, rows: int, reader: LabelReader) -> np.ndarray:
        return np.full(rows, -1, dtype=np.int64)

    def statistics(self, labels: np.ndarray, reader: LabelReader, scale: str) -> LabelStatistics:
        return LabelStatistics()

    def words(self, examples: Dataset, task: Task) -> list[TextWords]:
        """The candidates, as parts of the text that holds them all."""
        return [TextWords(text, candidate_spans(text)) for text in examples.texts[1].to_pylist()]

    # --- defaults -------------------------------------------------------------------------------------------------

    def default_loss(self, reader: LabelReader) -> str:
        return "choice-cross-entropy"

    def default_metrics(self, task: Task) -> tuple[str, ...]:
        return ("accuracy", "mrr")

    def reads_similarity(self, task: Task) -> bool:
        return False

    # --- outputs and predictions ----------------------------------------------------------------------------------

    def outputs(self, task: Task) -> int:
        return 1

    def activate(self, outputs: Any) -> Any:
        return outputs

    def decode(self, predictions: Any, task: Task) -> np.ndarray:
        """The number of the likeliest candidate of each example, the first of equal ones."""
        return np.array([int(row.argmax()) for row in predictions], dtype=np.int64)

    def describe(self, predictions: Any, task: Task) -> list[dict[str, Any]]:
        """The candidates' numbers alone."""
        return [{"prediction": int(row.argmax()), "probability": float(row.max())} for row in predictions]

    def describe_words(self, predictions: Any, task: Task, texts: Sequence[TextWords]) -> list[dict[str, Any]]:
        """{'prediction': the candidate, 'label': as files name it, 'index', 'probability', 'candidates': each's}."""
        described: list[dict[str, Any]] = []
        for probabilities, text in zip(predictions, texts, strict=True):
            candidates = [text.text[start:end] for start, end in text.spans]
            best = int(probabilities.argmax())
            every = []
            for candidate, probability in zip(candidates, probabilities, strict=True):
                every.append({"text": candidate, "probability": float(probability)})
            described.append(
                {
                    "prediction": candidates[best],
                    "label": spell_label(best, task.labels.candidate_labels or "index", candidates),
                    "index": best,
                    "probability": float(probabilities[best]),
                    "candidates": every,
                }
            )
        return described

    def as_cell(self, described: dict[str, Any], task: Task) -> str:
        """As the files of this task say which one is right."""
        return str(described["label"])

    def plain_loss(self, predictions: Any, labels: np.ndarray, task: Task) -> float:
        """Mean −log p of the right candidate."""
        right = predictions.values[predictions.starts[:-1] + labels].astype(np.float64)
        return float(-np.log(np.maximum(right, SMALLEST_PROBABILITY)).mean())

    # --- calibration ----------------------------------------------------------------------------------------------

    def fit_calibration(self, predictions: Any, labels: np.ndarray, task: Task) -> Calibration:
        padded, present = pad_rows(predictions)
        return {"temperature": fit_temperature(padded, labels, present)}

    def calibrate(self, predictions: Any, task: Task) -> Any:
        return _at_temperature(predictions, task.temperature)

    def soften(self, predictions: Any, temperature: float) -> Any:
        """p_k^(1/T) / Σ_j p_j^(1/T) over the candidates of a row."""
        return _at_temperature(predictions, temperature)

    # --- for people -----------------------------------------------------------------------------------------------

    def summary(self, task: Task) -> str:
        way = CALLED[task.labels.candidate_labels or "index"]
        return f"{self.name}: {task.train_examples:,} questions, the right candidate by {way}"

    def label_text(self, value: Any, task: Task) -> str:
        return f"candidate {int(value) + 1}"


def pad_rows(column: Ragged) -> tuple[np.ndarray, np.ndarray]:
    """[rows, longest] values, 0 behind a row's end; and [rows, longest] whether something is there."""
    lengths = column.lengths
    present = np.arange(lengths.max(initial=1))[None, :] < lengths[:, None]
    padded = np.zeros(present.shape, dtype=np.float64)
    padded[present] = column.values
    return padded, present


def _at_temperature(predictions: Ragged, temperature: float) -> Ragged:
    if temperature == 1.0 or not len(predictions):
        return predictions
    padded, present = pad_rows(predictions)
    return Ragged(apply_temperature(padded, temperature, present)[present], predictions.starts)
