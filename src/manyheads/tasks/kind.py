"""What a kind of task must offer: everything that depends on what its labels and predictions are.

The kinds themselves are parts (`parts/kinds/`). No other room asks which kind a task has: it asks the kind.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

import numpy as np

from manyheads import registry
from manyheads.data.dataset import Dataset
from manyheads.data.labels import LabelReader, LabelType
from manyheads.data.tags import Scheme
from manyheads.data.words import TextWords
from manyheads.storage.ragged import Column, Ragged

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

WORD = re.compile(r"\S+")
# An array with a row per example; a `Ragged` where a kind's examples have as many values as words. A kind's methods say
# which of the two they read.
Labels: TypeAlias = Any
Predictions: TypeAlias = Any
Calibration: TypeAlias = dict[str, Any]  # values of a task's fields: {"temperature": 1.3} or {"thresholds": [0.4, …]}


@dataclass(frozen=True)
class LabelDeclaration:
    """What a recipe says of a task's labels."""

    labels: list[str] | dict[str, str] | None = None
    range: tuple[float, float] | None = None
    separator: str | None = None
    scheme: Scheme | None = None
    scores: bool = False  # of a search: whether the label column has a teacher's scores


@dataclass(frozen=True)
class LabelStatistics:
    """What is known of a task's training labels."""

    counts: tuple[int, ...] = ()  # rows of each class
    bounds: tuple[float, float] | None = None  # smallest and largest number
    offset: float = 0.0  # the head works on (label − offset) / unit
    unit: float = 1.0


class Kind(ABC):
    """A kind of task. It has no state: whatever differs between tasks of a kind is in the `Task`."""

    name: ClassVar[str]  # as recipes call it
    called: ClassVar[str]  # with an article, for messages
    label_type: ClassVar[LabelType]
    label_columns: ClassVar[bool] = False  # whether a column per class is read
    has_range: ClassVar[bool] = False  # a task with a declared range is of this kind
    needs_labels: ClassVar[bool] = True  # whether its reader depends on the labels of train, which may be millions
    has_classes: ClassVar[bool] = True
    exclusive: ClassVar[bool] = True  # exactly one class is right
    ordered: ClassVar[bool] = False  # its classes are in order
    hub_task: ClassVar[str] = "text-classification"  # what the hub calls it
    problem_type: ClassVar[str | None] = None  # what transformers calls it; None: nothing
    figures: ClassVar[tuple[str, ...]]  # what a report draws of its predictions
    per_word: ClassVar[bool] = False  # labels and predictions are `Ragged`: each word of a text has one of its own
    per_candidate: ClassVar[bool] = False  # a row's candidates are an encoder input each; exactly one of them is right
    per_token: ClassVar[bool] = False  # an answer is looked for among the tokens of the second text
    word_columns: ClassVar[bool] = False  # whether its files may have lists of words, of tags, and of spans
    pooling: ClassVar[str | None] = None  # where a recipe names none; None: the encoding's
    encoding: ClassVar[str | None] = None  # where a recipe names none; None: by the number of texts
    searches: ClassVar[bool] = False  # whether its rows are texts that match, each found among those of all rows
    calibration_metrics: ClassVar[tuple[str, ...]] = ()  # beside the plain loss, what tells whether a calibration helps

    @property
    def ragged(self) -> bool:
        """Whether an example has as many predictions as words, or as candidates."""
        return self.per_word or self.per_candidate or self.per_token

    @property
    def in_windows(self) -> bool:
        """Whether long texts are read window by window, and never cut."""
        return self.per_word or self.per_token

    # --- labels ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def recognise(self, labels: set[str], declared: LabelDeclaration) -> int:
        """How sure it is that these are labels of this kind; 0 is not at all. The surest kind is taken.

        A ValueError says that the labels look like this kind's but do not fit.
        """

    @abstractmethod
    def make_reader(self, labels: set[str], declared: LabelDeclaration) -> LabelReader:
        """What was declared, completed by the labels of train. A ValueError says what to declare instead."""

    @abstractmethod
    def read_label(self, label: str, reader: LabelReader) -> Any:
        """A label's value, or a BadLabel that says what is wrong with it."""

    @abstractmethod
    def unlabelled(self, rows: int, reader: LabelReader) -> Column:
        """The values of rows that have no label; empty rows where labels are per word."""

    @abstractmethod
    def statistics(self, labels: Labels, reader: LabelReader, scale: str) -> LabelStatistics:
        """Of the labelled rows of train."""

    def targets(self, labels: Labels, task: Task) -> Labels:
        """Labels as the loss sees them; where they are per word, those of a batch end to end."""
        return labels

    def word_spans(self, text: str) -> list[tuple[int, int]]:
        """Where each word with a label of its own begins and ends in its text, in characters."""
        return [match.span() for match in WORD.finditer(text)]

    def words(self, examples: Dataset, task: Task) -> list[TextWords]:
        """The words of all texts."""
        return [TextWords(text, self.word_spans(text)) for text in examples.texts[0].to_pylist()]

    def inside_labels(self, task: Task) -> np.ndarray:
        """[classes] the label of a word's later pieces, by the label of the word."""
        return np.arange(len(task.labels.names))

    def count_repairs(self, label: str, reader: LabelReader) -> int:
        """How many of a row's tags break the rules of their scheme, and are read as what they must have meant."""
        return 0

    # --- defaults -------------------------------------------------------------------------------------------------

    @abstractmethod
    def default_loss(self, reader: LabelReader) -> str: ...

    @abstractmethod
    def default_metrics(self, task: Task) -> tuple[str, ...]:
        """The first is the primary metric."""

    def why_parts_incompatible(self, task: Task) -> list[tuple[str, str]]:
        """What of a task does not fit its kind, beside what the parts say themselves: (key, reason)."""
        return []

    @abstractmethod
    def reads_similarity(self, task: Task) -> bool:
        """Whether a similarity from 0 to 1 can be its prediction."""

    # --- outputs and predictions ----------------------------------------------------------------------------------

    @abstractmethod
    def outputs(self, task: Task) -> int:
        """How many outputs a head has for one prediction, unless the loss says otherwise."""

    @abstractmethod
    def activate(self, outputs: Any) -> Any:
        """A head's outputs (tensor) → probabilities or values, unless the loss says otherwise."""

    def in_label_units(self, predictions: Predictions, task: Task) -> Predictions:
        """Predictions as people read them."""
        return predictions

    @abstractmethod
    def decode(self, predictions: Predictions, task: Task) -> Predictions:
        """Probabilities → class indices, or a 0 or 1 for every class; values stay as they are.

        Where predictions are per word, those of some words end to end, as metrics see them.
        """

    @abstractmethod
    def describe(self, predictions: Predictions, task: Task) -> list[dict[str, Any]]:
        """Predictions in the user's own words: {'prediction': …}, and for classes their probabilities."""

    def read_out(self, predictions: Predictions, task: Task, texts: Sequence[TextWords]) -> Predictions:
        """What is predicted of texts, from what heads say of their tokens; `texts` say where those stand."""
        return predictions

    def describe_words(self, predictions: Predictions, task: Task, texts: Sequence[TextWords]) -> list[dict[str, Any]]:
        """The same of predictions per word, whose texts are at hand."""
        return self.describe(predictions, task)

    def as_text(self, prediction: Any, task: Task) -> str:
        """A described prediction as a cell of a file."""
        return str(prediction)

    def as_cell(self, described: dict[str, Any], task: Task) -> str:
        """All that is described of an example as a cell of a file."""
        return self.as_text(described["prediction"], task)

    def measured(self, predictions: Predictions, labels: Labels) -> tuple[Predictions, Labels]:
        """What metrics see: arrays as they are, and of ragged columns the values of all words end to end."""
        if isinstance(labels, Ragged):
            return predictions.values, labels.values
        return predictions, labels

    @abstractmethod
    def plain_loss(self, predictions: Predictions, labels: Labels, task: Task) -> float:
        """Mean loss over examples that is the same for every loss a task may train with, so that runs compare."""

    def scored_names(self, task: Task) -> tuple[str, ...]:
        """What metrics that are `per_class` have a number for."""
        return task.labels.names

    # --- calibration: predictions and labels are as `measured` gives them ---------------------------------------------

    def fit_calibration(self, predictions: Predictions, labels: Labels, task: Task) -> Calibration:
        """What makes predictions fit labels that the model was not trained on; empty where nothing is to be fitted."""
        return {}

    def calibrate(self, predictions: Predictions, task: Task) -> Predictions:
        """A model's own predictions → those by the task's calibration."""
        return predictions

    def constant_prediction(self, labels: Labels, task: Task) -> np.ndarray | None:
        """The best prediction of one example that knows nothing but these labels of train; None where there is none."""
        return None

    # --- teachers: predictions are a model's own, not calibrated -----------------------------------------------------

    def why_not_taught_by(self, teacher: Task, task: Task) -> str | None:
        """Why the predictions of a teacher, a task of another model, cannot be this task's; None where they can."""
        theirs = teacher.kind
        features = (theirs.has_classes, theirs.exclusive, theirs.per_word, theirs.per_candidate, theirs.per_token)
        if features != (self.has_classes, self.exclusive, self.per_word, self.per_candidate, self.per_token):
            return f"it is {theirs.called} there and {self.called} here"
        if len(teacher.columns.text) != len(task.columns.text):
            return f"it reads {_texts(teacher)} there and {_texts(task)} here"
        return None

    def taught_by(self, predictions: Predictions, teacher: Task, task: Task) -> Predictions:
        """A teacher's predictions as this task would write them: classes by name, in this task's order."""
        return predictions

    def soften(self, predictions: Predictions, temperature: float) -> Predictions:
        """Predictions at a temperature above 1 are less sure; numbers have none."""
        return predictions

    # --- for people -----------------------------------------------------------------------------------------------

    @abstractmethod
    def summary(self, task: Task) -> str:
        """One line on a task's labels: '3 classes: no 61 %, …'."""

    @abstractmethod
    def label_text(self, value: Any, task: Task) -> str:
        """One label's value as people read it."""


def _texts(task: Task) -> str:
    return "two texts" if task.pair else "one text"


def find_kind(name: str) -> Kind:
    """The kind of that name. An unknown name is a ValueError that lists the valid ones and the nearest."""
    return cast(Kind, registry.find("kinds", name).factory())


def all_kinds() -> list[Kind]:
    return [cast(Kind, part.factory()) for part in registry.parts("kinds")]
