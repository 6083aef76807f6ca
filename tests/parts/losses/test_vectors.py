"""Losses of searches by formula, in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from building import KINDS, SCORED, SEARCH, a_task
from manyheads.config.part import PartConfig
from manyheads.data.labels import LabelReader
from manyheads.registry import find

pytestmark = pytest.mark.numeric
COUNTS = torch.tensor([2, 4, 3])  # a query, its answer, and 0, 2 and 1 wrong answers
TEXTS = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 8])


def build(name: str, labels: LabelReader = SEARCH, **options: Any) -> Any:
    return find("losses", name).factory(a_task(labels=labels, loss=PartConfig(name=name, options=options)), **options)


def some_vectors(seed: int = 0) -> Tensor:
    return torch.randn(9, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cosine(u: Tensor, v: Tensor) -> float:
    return float(u @ v / (u.norm() * v.norm()))


def expected_losses(vectors: Tensor, texts: list[int], scale: float, symmetric: bool = False) -> list[float]:
    """The formula, answer by answer, without a matrix."""
    rows = [(0, [1]), (2, [3, 4, 5]), (6, [7, 8])]
    losses = []
    for query, (right, *_) in rows:
        maybe_right = {texts[query]}
        for other, (other_right, *_) in rows:
            if texts[other] == texts[query]:
                maybe_right.add(texts[other_right])
        terms = []
        for _, answers in rows:
            for answer in answers:
                if answer == right or texts[answer] not in maybe_right:
                    terms.append(scale * cosine(vectors[query], vectors[answer]))
        own = scale * cosine(vectors[query], vectors[right])
        loss = float(torch.tensor(terms, dtype=torch.float64).logsumexp(0)) - own
        if symmetric:
            terms = []
            for other, (other_right, *_) in rows:
                right_there = {texts[r] for q, (r, *_) in rows if texts[q] == texts[other]} | {texts[other]}
                if other_right == right or texts[right] not in right_there:
                    terms.append(scale * cosine(vectors[other], vectors[right]))
            loss = (loss + float(torch.tensor(terms, dtype=torch.float64).logsumexp(0)) - own) / 2
        losses.append(loss)
    return losses


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(
    "texts",
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8],  # all different
        [0, 1, 2, 1, 4, 5, 6, 7, 8],  # two rows have the same right answer
        [0, 1, 0, 3, 4, 5, 6, 1, 3],  # two equal queries; the right answer of one is wrong in another row
        [7, 1, 2, 3, 2, 3, 6, 7, 8],  # a query's own text among the answers; a wrong answer equal to the right one
    ],
)
def test_the_right_answer_among_those_of_the_batch(texts: list[int], symmetric: bool) -> None:
    vectors = some_vectors()
    values = build("multiple-negatives", scale=7.0, symmetric=symmetric)(vectors, torch.tensor(texts), COUNTS)
    assert values.tolist() == pytest.approx(expected_losses(vectors, texts, 7.0, symmetric), rel=1e-12)


def test_equal_answers_send_no_gradient_to_each_other() -> None:
    """Rows 0 and 1 have the same answer: as wrong answers of each other they would be pushed away."""
    vectors = some_vectors()[:4].requires_grad_()
    counts = torch.tensor([2, 2])
    build("multiple-negatives")(vectors, torch.tensor([0, 1, 2, 1]), counts).sum().backward()
    assert vectors.grad is not None
    assert vectors.grad.abs().max() == 0
    vectors.grad = None
    build("multiple-negatives")(vectors, torch.tensor([0, 1, 2, 3]), counts).sum().backward()
    assert vectors.grad.abs().max() > 0


def test_widths_are_the_mean_of_losses_of_the_first_numbers() -> None:
    vectors = some_vectors()
    parts = [build("multiple-negatives")(vectors[:, :width], TEXTS, COUNTS) for width in (5, 2, 3)]
    values = build("multiple-negatives", widths=[2, 3])(vectors, TEXTS, COUNTS)
    assert torch.allclose(values, torch.stack(parts).mean(dim=0), rtol=1e-12)
    with pytest.raises(ValueError, match="'widths' are below 5, which is that of the vectors, found 5"):
        build("multiple-negatives", widths=[2, 5]).check_width(5)


def test_margins_are_a_teachers() -> None:
    vectors, counts = some_vectors()[2:], torch.tensor([4, 3])
    scores = torch.tensor([0.0, 5.0, 1.0, -2.0, 0.0, 0.5, 2.5], dtype=torch.float64)
    values = build("margin-mse", SCORED, scale=3.0)(vectors, scores, counts)
    margins = []
    for query, right, wrong in ((0, 1, 2), (0, 1, 3), (4, 5, 6)):
        ours = 3 * (cosine(vectors[query], vectors[right]) - cosine(vectors[query], vectors[wrong]))
        margins.append((ours - float(scores[right] - scores[wrong])) ** 2)
    assert values.tolist() == pytest.approx([(margins[0] + margins[1]) / 2, margins[2]], rel=1e-12)


@pytest.mark.parametrize("name", ["multiple-negatives", "margin-mse"])
def test_promises_of_every_loss(name: str) -> None:
    labels = SCORED if name == "margin-mse" else SEARCH
    loss = build(name, labels)
    counts = torch.tensor([3, 3, 3])
    for value in (-80.0, 0.0, 80.0):
        vectors = torch.full((9, 4), value, requires_grad=True)
        loss(vectors, TEXTS, counts).sum().backward()
        assert vectors.grad is not None
        assert torch.isfinite(vectors.grad).all()
    vectors = some_vectors()
    assert torch.isfinite(loss(vectors[:3], TEXTS[:3], counts[:1])).all(), "also a batch of one"
    alone = torch.cat([loss(vectors[i : i + 3], TEXTS[i : i + 3], counts[:1]) for i in (0, 3, 6)])
    assert torch.allclose(loss(vectors, TEXTS, counts), alone) != loss.whole_batch
    pairs = loss.predict(vectors[:8])
    assert pairs[:, 0].tolist() == pytest.approx([cosine(vectors[i], vectors[i + 1]) for i in (0, 2, 4, 6)])
    for task in (a_task(labels=other, loss=name) for other in KINDS):
        if not task.kind.searches:
            assert loss.why_incompatible(task).startswith(f"'{name}' needs texts that match")
