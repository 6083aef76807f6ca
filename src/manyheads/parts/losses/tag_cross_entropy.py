"""Cross-entropy over the tags of words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

from manyheads.parts.losses.base import Weights, weigh_classes
from manyheads.parts.losses.cross_entropy import CrossEntropy
from manyheads.registry import Share, register

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("losses", "tag-cross-entropy")
class TagCrossEntropy(CrossEntropy):
    """w_y·[−(1 − ε)·log p_y − ε/C·Σ_c log p_c] of each word, averaged over the words of each sentence or of the step.

    p = softmax(x), x: outputs [words, classes]; y: class indices [words]; C: number of classes.
    `average`: 'sentence' is the mean over sentences of the mean over their words, so that every sentence weighs alike;
    'word' the mean over all words of the step, in all processes, so that every word does and long sentences teach more.
    ε (`label_smoothing`), w (`class_weights`): as in `cross-entropy`; 'balanced' counts words.
    Relations: `crf` scores the tags of a sentence together.
    """

    label_types = ("word tags",)

    def __init__(
        self,
        task: Task,
        *,
        average: Literal["sentence", "word"] = "sentence",
        label_smoothing: Share = 0.0,
        class_weights: Weights | None = None,
    ) -> None:
        super().__init__(task, label_smoothing=label_smoothing)
        self.average = average
        self.weights = weigh_classes(task, None if class_weights == "balanced" else class_weights)
        if class_weights == "balanced":
            counts = torch.tensor(task.counts, dtype=torch.float32).clamp(min=1.0)  # a tag that train lacks counts one
            self.weights = counts.sum() / (len(counts) * counts)
