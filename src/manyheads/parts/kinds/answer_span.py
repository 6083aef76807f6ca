"""The answer to a question is a part of a text, or is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from manyheads.data.answers import exact_match, f1, from_codes, read_answers, to_codes
from manyheads.data.dataset import Dataset
from manyheads.data.labels import BadLabel, LabelReader, LabelType
from manyheads.data.words import TextWords
from manyheads.parts.kinds.calibration import SMALLEST_PROBABILITY, THRESHOLD
from manyheads.registry import register
from manyheads.storage.ragged import Ragged
from manyheads.tasks.kind import Calibration, Kind, LabelDeclaration, LabelStatistics

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

LONGEST = 30  # tokens of an answer, where the loss does not say
HEADER = 4  # numbers before the text of a prediction: no answer's share, the span's probability, start, end
NO_ANSWER_DECIMALS = 6  # a threshold stays so far from 0 and 1


@register("kinds", "answer-span")
class AnswerSpan(Kind):
    """A question, and a text in which its answer stands as it is, or does not.

    Labels: the answers' starts and texts, as the character codes of JSON (ragged). Predictions: the share of 'no
    answer' beside the best span, the span's probability, its start and end in characters, and the codes of its text
    (ragged). The best span is the likeliest of those whose start is not after their end and that are short enough.
    Relations: `tags` where spans have types and no question.
    """

    name = "answer-span"
    called = "a search for answers"
    label_type: ClassVar[LabelType] = "answer"
    per_token = True
    hub_task = "question-answering"
    has_classes = False
    pooling = "words"
    figures: ClassVar[tuple[str, ...]] = ()

    # --- labels ---------------------------------------------------------------------------------------------------

    def recognise(self, labels: set[str], declared: LabelDeclaration) -> int:
        return 0  # by the columns: see `recognise_answers`

    def make_reader(self, labels: set[str], declared: LabelDeclaration) -> LabelReader:
        for key in ("labels", "range", "separator", "scheme"):
            if getattr(declared, key) is not None:
                raise ValueError(f"'{key}' is not for {self.called}; remove it or set its 'kind'")
        return LabelReader(self.name)

    def read_label(self, label: str, reader: LabelReader) -> list[int]:
        if not label:
            raise BadLabel("no label")
        return to_codes(label)

    def unlabelled(self, rows: int, reader: LabelReader) -> Ragged:
        return Ragged.from_rows([[]] * rows, np.int64)

    def statistics(self, labels: Ragged, reader: LabelReader, scale: str) -> LabelStatistics:
        return LabelStatistics()

    def words(self, examples: Dataset, task: Task) -> list[TextWords]:
        """The texts in which answers are looked for."""
        texts = examples.texts[1].to_pylist()
        indents = np.zeros(len(texts), dtype=np.int64) if examples.indents is None else examples.indents
        return [TextWords(text, [], indent) for text, indent in zip(texts, indents.tolist(), strict=True)]

    # --- defaults -------------------------------------------------------------------------------------------------

    def default_loss(self, reader: LabelReader) -> str:
        return "span-cross-entropy"

    def default_metrics(self, task: Task) -> tuple[str, ...]:
        return ("answer-f1", "answer-exact-match")

    def reads_similarity(self, task: Task) -> bool:
        return False

    # --- outputs and predictions ----------------------------------------------------------------------------------

    def outputs(self, task: Task) -> int:
        return 2

    def activate(self, outputs: Any) -> Any:
        return outputs

    def read_out(self, predictions: Ragged, task: Task, texts: Sequence[TextWords]) -> Ragged:
        """Log-probabilities of the places where the answer begins and ends → the best span of each text, whose `spans`
        say where its tokens stand."""
        longest = int(task.loss.options.get("longest", LONGEST))
        rows: list[list[float]] = []
        for logs, text in zip(predictions, texts, strict=True):
            none = float(logs[0].sum())
            first, last, best = best_span(logs[1:].astype(np.float64), longest)
            share = float(1 / (1 + np.exp(np.clip(best - none, -500.0, 500.0))))
            start, end = (text.spans[first][0], text.spans[last][1]) if text.spans else (0, 0)
            rows.append([share, float(np.exp(best)), start, end, *to_codes(text.text[start:end])])
        return Ragged.from_rows(rows, np.float64)

    def decode(self, predictions: Any, task: Task) -> Any:
        """The text of each answer; nothing where the share of 'no answer' is above the task's threshold."""
        threshold = task.thresholds[0] if task.thresholds else THRESHOLD
        return [from_codes(row[HEADER:]) if row[0] <= threshold else "" for row in predictions]

    def measured(self, predictions: Any, labels: Any) -> tuple[Any, Any]:
        """Ragged: metrics read texts."""
        return predictions, labels

    def describe(self, predictions: Any, task: Task) -> list[dict[str, Any]]:
        """Offsets are those of the texts without spaces around them."""
        return self.describe_words(predictions, task, [TextWords("", [])] * len(predictions))

    def describe_words(self, predictions: Any, task: Task, texts: Sequence[TextWords]) -> list[dict[str, Any]]:
        """{'prediction': the answer or '', 'start', 'end', 'probability', 'no_answer': its share}; offsets are those of
        the text as it came."""
        described: list[dict[str, Any]] = []
        for row, answer, text in zip(predictions, self.decode(predictions, task), texts, strict=True):
            share, probability = float(row[0]), float(row[1])
            places: dict[str, int | None] = {"start": None, "end": None}
            if answer:
                places = {"start": int(row[2]) + text.indent, "end": int(row[3]) + text.indent}
            confidence = probability if answer else share
            described.append({"prediction": answer, **places, "probability": confidence, "no_answer": share})
        return described

    def plain_loss(self, predictions: Any, labels: Any, task: Task) -> float:
        """Mean −log of the probability of having an answer where there is one, of having none where there is none; of
        wrong answers −log of the share that is not theirs."""
        total = 0.0
        for row, codes in zip(predictions, labels, strict=True):
            answers = [text for _, text in read_answers(codes)]
            has_none, found = float(row[0]), float(row[1])
            chance = has_none if not answers else found
            if answers and not exact_match(from_codes(row[HEADER:]), answers):
                chance = 1 - found
            total -= float(np.log(max(chance, SMALLEST_PROBABILITY)))
        return total / len(labels)

    def fit_calibration(self, predictions: Any, labels: Any, task: Task) -> Calibration:
        """The share of 'no answer' above which none is predicted: the one with the highest mean F1; nothing where every
        text has an answer."""
        answers = [[text for _, text in read_answers(codes)] for codes in labels]
        if all(answers):
            return {}
        shares = np.array([float(row[0]) for row in predictions])
        found = np.array([f1(from_codes(row[HEADER:]), right) for row, right in zip(predictions, answers, strict=True)])
        none = np.array([float(not right) for right in answers])
        order = np.argsort(shares, kind="stable")
        ordered = shares[order]
        # with the k rows of the smallest shares answered
        scores = (
            np.concatenate([[0.0], np.cumsum(found[order])])
            + none.sum()
            - np.concatenate([[0.0], np.cumsum(none[order])])
        )
        edges = np.concatenate([[0.0], ordered, [1.0]])
        thresholds = (edges[:-1] + edges[1:]) / 2
        distinct = np.flatnonzero(edges[:-1] < edges[1:])  # between equal shares no threshold stands
        best = distinct[np.lexsort((np.abs(thresholds[distinct] - THRESHOLD), -scores[distinct]))[0]]
        smallest = 10.0**-NO_ANSWER_DECIMALS
        return {"thresholds": [float(np.clip(thresholds[best], smallest, 1 - smallest))]}

    # --- for people -----------------------------------------------------------------------------------------------

    def summary(self, task: Task) -> str:
        return f"{self.name}: {task.train_examples:,} questions"

    def label_text(self, value: Any, task: Task) -> str:
        return " / ".join(text for _, text in read_answers(np.asarray(value))) or "no answer"


def best_span(logs: np.ndarray, longest: int) -> tuple[int, int, float]:
    """(first, last, log p_first + log q_last) of [tokens, 2] with first ≤ last < first + longest; the first of equal
    ones, and −∞ of no tokens."""
    best = (0, 0, -np.inf)
    for length in range(min(longest, len(logs))):
        sums = logs[: len(logs) - length, 0] + logs[length:, 1]
        first = int(sums.argmax())
        if sums[first] > best[2]:
            best = (first, first + length, float(sums[first]))
    return best
