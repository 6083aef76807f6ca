"""Sentence vectors that stay near those of the encoder that training starts from."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from manyheads import registry
from manyheads.encoder.bfloat16 import to_float32
from manyheads.parts.encodings.pairs import cosine
from manyheads.parts.pooling.head_pooler import READERS
from manyheads.parts.regularisers.base import ForwardPass, RegularisedModel, Regulariser
from manyheads.registry import NotNegative, TaskName, register

if TYPE_CHECKING:
    from manyheads.encoder import Encoder
    from manyheads.parts.pooling import Pooling
    from manyheads.tasks.task import Task
    from manyheads.tokens.packing import PackedTokens


@register("regularisers", "anchor")
class Anchor(Regulariser):
    """λ·(1 − cos(v, v₀)): the encoder's sentence vectors v stay near those it gave before training, v₀.

    v is the mean of the last layer's token states of one text, with the dropout of the pass (`reads`: the state of the
    `first` or `last` token instead, for encoders whose sentence vector that is); v₀ comes from a copy of the encoder as
    it was when the term's first phase began, without dropout. An example of a bi-encoder has the mean of its two texts.
    An input that joins two texts has no sentence vector, and a task without other inputs has no term. The copy is kept
    in memory and in checkpoints, and each step costs it one forward pass.
    """

    reruns = False
    reads_states = True
    start: Encoder  # the copy that gives v₀
    pooling: Pooling

    def __init__(
        self,
        names: Sequence[str],
        *,
        weight: NotNegative = 1.0,
        reads: Literal["mean", "first", "last"] = "mean",
        tasks: list[TaskName] | None = None,
    ) -> None:
        super().__init__(names, weight, tasks)
        self.reads = reads

    @classmethod
    def why_incompatible(cls, task: Task) -> str | None:
        if registry.find("encodings", task.encoding.name).factory.single_texts != slice(0):
            return None
        return f"encoding '{task.encoding.name}' of task '{task.name}' has no sentence vectors: it joins two texts"

    def describe(self, model: RegularisedModel) -> str:
        size = sum(parameter.numel() for parameter in model.encoder.parameters()) * 4 / 1e6
        return f"{super().describe(model)} (a copy of the encoder: {size:,.0f} MB)"

    def begin(self, model: RegularisedModel) -> None:
        self.start = copy.deepcopy(model.encoder).eval().requires_grad_(False)
        self.pooling = READERS[self.reads](self.start)

    def terms(self, forward_pass: ForwardPass) -> list[Tensor]:
        packed = forward_pass.packed
        vectors = self._vectors(forward_pass.states[self.start.depth], packed.tokens)
        with torch.no_grad(), forward_pass.autocast():
            start_vectors = self._vectors(self.start(packed.tokens), packed.tokens)
        distances = 1 - cosine(vectors, start_vectors)[:, 0]  # [sequences]
        terms = []
        for (task, inputs), sequences, words in zip(forward_pass.batches, packed.where, packed.words, strict=True):
            single_texts = forward_pass.model.head(task).encoding.single_texts
            term = distances[sequences].view(len(inputs), -1)[:, single_texts].mean(dim=1)
            if words is not None:
                term = term[words.inputs]  # a value per word, whose mean over the example's words it is
            terms.append(term)
        return terms

    def _vectors(self, states: Tensor, tokens: PackedTokens) -> Tensor:
        """[sequences, width]"""
        return self.pooling(to_float32(states), tokens.kept_starts, tokens.kept_lengths)
