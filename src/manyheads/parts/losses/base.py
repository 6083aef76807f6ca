"""What a loss must offer. It sees tensors and what the task is, never the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import torch
from pydantic import BeforeValidator
from torch import Tensor

from manyheads.config.label_text import normalise
from manyheads.data.labels import LabelType

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

ClassName = Annotated[str, BeforeValidator(normalise)]  # YAML reads 0 and true as int and bool
# what losses of one type of label need, where that is neither classes nor numbers
NEEDED: dict[tuple[LabelType, ...], str] = {
    ("word tags",): "tags of words",
    ("candidate",): "candidates to choose from",
    ("answer",): "answers in a text",
    ("match",): "texts that match",
}
Weights = Literal["balanced"] | list[float] | dict[ClassName, float]


class Loss:
    """(outputs, labels) → one value per example; and how outputs are read as a prediction. Built with its task.

    Outputs are one per class, or one number. A regression's outputs and labels are on the task's `scale`.
    """

    label_types: tuple[LabelType, ...] = ("class", "ordered class", "class set", "number")  # which it can read
    whole_batch = False  # whether an example's value depends on the others of its batch
    reads_soft_targets = False  # whether it has `soft`, and so can learn what a teacher predicts
    # of tags: whether it reads the words of an example together. It is then given how many words each has, after the
    # outputs and labels of them all, and has a value per example
    reads_sentences = False
    # of searches: whether it reads a vector for each text of an example. It is then given how many texts each has,
    # after the vectors and the numbers of them all
    reads_inputs = False
    reads_scores = False  # then, whether these numbers are a teacher's scores; else which texts are equal
    mined = 0  # of searches: how many wrong answers of each row are mined between epochs …
    mined_below = 1.0  # … with at most so many times the cosine of the right one
    # of tags: what counts alike in the mean of a step; 'example' where values are of examples already
    average: Literal["sentence", "word", "example"] = "sentence"

    def __init__(self, task: Task) -> None:
        self.task = task

    @classmethod
    def why_incompatible(cls, task: Task) -> str | None:
        """Why this loss cannot serve the task, or None."""
        if task.kind.label_type in cls.label_types:
            return None
        needs = "numbers"
        if cls.label_types in NEEDED:
            needs = NEEDED[cls.label_types]
        elif cls.label_types != ("number",):
            needs = "classes" if task.kind.exclusive or not task.kind.has_classes else "exactly one right class"
        return f"'{task.loss.name}' needs {needs}, this task is {task.kind.called}."

    @property
    def outputs(self) -> int:
        """How many outputs the head gives."""
        return self.task.kind.outputs(self.task)

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Outputs [examples, outputs], labels [examples] → loss [examples]."""
        raise NotImplementedError

    def check_width(self, width: int) -> None:
        """A ValueError says that vectors of this width do not fit."""

    def soft(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Outputs [examples, outputs], what a teacher predicts → loss [examples].

        Σ_y q_y·loss(outputs, y) for a teacher's probabilities q [examples, classes], so that one who is certain gives a
        label; for numbers the loss of the teacher's value [examples], on the task's `scale`.
        """
        raise NotImplementedError

    def predict(self, outputs: Tensor) -> Tensor:  # with the examples' words as a second argument if `reads_sentences`
        """Class probabilities [examples, classes], or a regression's values [examples]."""
        predictions: Tensor = self.task.kind.activate(outputs)
        return predictions


def weigh_classes(task: Task, given: Weights | None) -> Tensor | None:
    """One weight per class: as given, or 'balanced': N/(C·n_c) for n_c of the N train rows in class c of C.

    For multi-label tasks, where a class is weighed against its own absence, 'balanced' is (N − n_c)/n_c.
    """
    names = task.labels.names
    if given is None:
        return None
    if given == "balanced":
        if not all(task.counts):
            raise ValueError(f"'class_weights: balanced' needs train rows of class '{names[task.counts.index(0)]}'")
        counts = torch.tensor(task.counts, dtype=torch.float32)
        if task.kind.exclusive:
            return task.train_examples / (len(names) * counts)
        return (task.train_examples - counts) / counts
    if isinstance(given, dict):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(f"'class_weights': no class '{unknown[0]}'. Known: {', '.join(names)}")
        given = [given.get(name, 1.0) for name in names]
    if len(given) != len(names):
        raise ValueError(f"'class_weights' has {len(given)} weights for {len(names)} classes")
    if min(given) < 0 or max(given) == 0:
        raise ValueError("'class_weights' are positive numbers")
    return torch.tensor(given)
