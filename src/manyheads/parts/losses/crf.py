"""A linear-chain conditional random field over the tags of a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from manyheads.data.labels import LabelType
from manyheads.data.tags import OUTSIDE, split_tag
from manyheads.parts.losses.base import Loss
from manyheads.registry import register

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

FORBIDDEN = -1e4  # added to the score of a transition that no BIO sentence has


@register("losses", "crf")
class Crf(Loss, nn.Module):
    """log Σ_z exp s(z) − s(y) of each sentence, s(y) = a_y₁ + Σ_t x_t,y_t + Σ_t A_y_t,y_t+1 + b_y_n.

    x: outputs [words, classes]; y: the sentence's tags; z: any sequence of tags; a, A, b: scores of the first tag, of a
    tag after another, and of the last tag, which are learnt. The sum over all z is exact, by the forward recursion, and
    so are its gradients.
    Predicted is the best sequence (Viterbi): the probability of a tag at a word is the softmax of the scores of the
    best sequences that have it there.
    `constrained`: sequences in which I-X goes on with nothing have no share, in training and in prediction.
    `average`: 'sentence' divides each sentence's value by its words, 'word' the sum over the step by all its words.
    Relations: `tag-cross-entropy` scores each word on its own.
    """

    label_types: tuple[LabelType, ...] = ("word tags",)
    reads_sentences = True
    forbidden: Tensor  # [classes, classes]
    forbidden_first: Tensor  # [classes]

    def __init__(
        self, task: Task, *, average: Literal["sentence", "word"] = "sentence", constrained: bool = True
    ) -> None:
        nn.Module.__init__(self)
        Loss.__init__(self, task)
        self.average = average
        classes = len(task.labels.names)
        self.transitions = nn.Parameter(torch.zeros(classes, classes))  # from the row's tag to the column's
        self.first = nn.Parameter(torch.zeros(classes))
        self.last = nn.Parameter(torch.zeros(classes))
        between, first = torch.zeros(classes, classes), torch.zeros(classes)
        if constrained and task.labels.scheme != "plain":
            between, first = _forbidden(task.labels.names)
        self.register_buffer("forbidden", between, persistent=False)
        self.register_buffer("forbidden_first", first, persistent=False)

    def __call__(self, outputs: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:  # type: ignore[override]
        """Outputs and labels of the words of all sentences, and how many each has → a value per sentence."""
        return self.log_normaliser(outputs, lengths) - self.score(outputs, labels, lengths)

    def score(self, outputs: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
        """[sentences] s of these tags."""
        first, between, last = self._scores(outputs)
        ends = lengths.cumsum(0) - 1
        starts = ends - lengths + 1
        sentences = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
        of_words = outputs.gather(1, labels[:, None])[:, 0]
        of_pairs = between[labels[:-1], labels[1:]].masked_fill(sentences[:-1] != sentences[1:], 0.0)
        total = outputs.new_zeros(len(lengths)).index_add(0, sentences, of_words)
        total = total.index_add(0, sentences[1:], of_pairs)
        return total + first[labels[starts]] + last[labels[ends]]

    def log_normaliser(self, outputs: Tensor, lengths: Tensor) -> Tensor:
        """[sentences] log Σ_z exp s(z): α_1 = a + x_1; α_t,j = log Σ_i exp(α_t−1,i + A_ij) + x_t,j."""
        first, between, last = self._scores(outputs)
        padded, there = _pad(outputs, lengths)
        alpha = first + padded[:, 0]
        for word in range(1, padded.shape[1]):
            following = torch.logsumexp(alpha[:, :, None] + between, dim=1) + padded[:, word]
            alpha = torch.where(there[:, word, None], following, alpha)
        return torch.logsumexp(alpha + last, dim=1)

    def predict(self, outputs: Tensor, lengths: Tensor) -> Tensor:  # type: ignore[override]
        """[words, classes] softmax of max_z s(z) over the sequences with that tag at that word."""
        first, between, last = self._scores(outputs)
        padded, there = _pad(outputs, lengths)
        words = padded.shape[1]
        before = [first + padded[:, 0]]  # of the best sequence up to a word, with each tag there
        for word in range(1, words):
            following = (before[-1][:, :, None] + between).amax(dim=1) + padded[:, word]
            before.append(torch.where(there[:, word, None], following, before[-1]))
        after = [last.expand(len(lengths), -1)]  # of the best one from there on, without the word itself
        for word in range(words - 1, 0, -1):
            preceding = (between + (padded[:, word] + after[-1])[:, None, :]).amax(dim=2)
            after.append(torch.where(there[:, word, None], preceding, after[-1]))
        best = torch.stack(before, dim=1) + torch.stack(after[::-1], dim=1)
        return best[there].softmax(dim=-1)

    def _scores(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(a, A, b) with what is forbidden."""
        first = self.first.to(outputs) + self.forbidden_first.to(outputs)
        return first, self.transitions.to(outputs) + self.forbidden.to(outputs), self.last.to(outputs)


def _forbidden(names: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    """What is added to the scores of pairs of tags and of first tags, so that I-X never goes on with nothing."""
    split = [split_tag(name) or (OUTSIDE, "") for name in names]
    between, first = torch.zeros(len(names), len(names)), torch.zeros(len(names))
    for column, (prefix, entity_type) in enumerate(split):
        if prefix != "I":
            continue
        first[column] = FORBIDDEN
        for row, (prefix_before, type_before) in enumerate(split):
            if prefix_before == OUTSIDE or type_before != entity_type:
                between[row, column] = FORBIDDEN
    return between, first


def _pad(outputs: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """([sentences, most words, classes], [sentences, most words] whether a word is there)."""
    there = torch.arange(int(lengths.max()), device=lengths.device) < lengths[:, None]
    padded = outputs.new_zeros(*there.shape, outputs.shape[1])
    return padded.masked_scatter(there[:, :, None], outputs), there
