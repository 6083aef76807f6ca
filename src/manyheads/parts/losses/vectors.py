"""Losses of vectors: what a row's texts are, and how near two of them are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from manyheads.data.labels import LabelType
from manyheads.parts.losses.base import Loss
from manyheads.registry import Count

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

Widths = Annotated[list[Count], Field(min_length=1)]


class Places(NamedTuple):
    """Where the texts of a batch stand among its vectors."""

    queries: Tensor  # [examples]
    answers: Tensor  # [vectors − examples] right and wrong ones, in their order
    right: Tensor  # [examples] which of the answers is right
    examples: Tensor  # [vectors − examples] which example each answer is of

    @classmethod
    def of(cls, counts: Tensor) -> Places:
        """`counts`: how many vectors each example has: a query, its right answer, then wrong ones."""
        firsts = counts.cumsum(0) - counts
        is_query = torch.zeros(int(counts.sum()), dtype=torch.bool, device=counts.device)
        is_query[firsts] = True
        answers = (~is_query).nonzero().flatten()
        examples = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts - 1)
        return cls(firsts, answers, firsts - torch.arange(len(counts), device=counts.device), examples)


class VectorLoss(Loss):
    """(vectors [texts, width], numbers [texts], texts of each example [examples]) → loss [examples].

    The texts of an example lie side by side: a query, its right answer, wrong answers. `widths`: the loss is the mean
    of those of the first w numbers of each vector, for each w given and for all numbers, so that vectors may be cut to
    these widths (Matryoshka). `width`: of vectors that a head makes; without a head they are as wide as the pooling's.
    """

    label_types: tuple[LabelType, ...] = ("match",)
    reads_inputs = True

    def __init__(self, task: Task, width: int, widths: list[int] | None) -> None:
        super().__init__(task)
        self.width, self.widths = width, widths or []

    @property
    def outputs(self) -> int:
        return self.width

    def check_width(self, width: int) -> None:
        too_wide = [part for part in self.widths if part >= width]
        if too_wide:
            raise ValueError(f"'widths' are below {width}, which is that of the vectors, found {too_wide[0]}")

    def __call__(self, outputs: Tensor, labels: Tensor, counts: Tensor | None = None) -> Tensor:
        assert counts is not None
        places = Places.of(counts)
        losses = [self.of_unit_vectors(unit(outputs), labels, places)]
        for width in self.widths:
            losses.append(self.of_unit_vectors(unit(outputs[:, :width]), labels, places))
        return torch.stack(losses).mean(dim=0)

    def of_unit_vectors(self, vectors: Tensor, labels: Tensor, places: Places) -> Tensor:
        """The loss [examples] of vectors of length 1."""
        raise NotImplementedError

    def predict(self, outputs: Tensor) -> Tensor:
        """[examples, 1] the cosine of each query and its answer, which lie side by side."""
        vectors = unit(outputs)
        return (vectors[0::2] * vectors[1::2]).sum(dim=1, keepdim=True)


def unit(vectors: Tensor) -> Tensor:
    """v/‖v‖"""
    return F.normalize(vectors, dim=1)
