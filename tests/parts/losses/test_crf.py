"""The linear-chain CRF against all paths, written out."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from building import TAGS, a_task
from manyheads.config.part import PartConfig
from manyheads.data.labels import LabelReader
from manyheads.parts.losses.crf import Crf

pytestmark = pytest.mark.numeric
TWO_TYPES = LabelReader(
    "tags", ("O", "B-a", "I-a", "B-b"), dict(zip(("O", "B-a", "I-a", "B-b"), range(4), strict=True))
)
LENGTHS = [1, 4, 2, 5]


def random_crf(labels: LabelReader, constrained: bool, seed: int) -> Crf:
    loss: Crf = a_task(labels=labels, loss=PartConfig(name="crf", options={"constrained": constrained})).loss.build(
        "losses", a_task(labels=labels)
    )
    draw = torch.Generator().manual_seed(seed)
    for parameter in (loss.transitions, loss.first, loss.last):
        parameter.data = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
    return loss


def path_score(loss: Crf, outputs: Tensor, path: tuple[int, ...], names: tuple[str, ...], constrained: bool) -> Tensor:
    """By the formula; −∞ where I goes on with nothing."""
    score = loss.first[path[0]] + loss.last[path[-1]] + sum(outputs[t, tag] for t, tag in enumerate(path))
    for before, after in itertools.pairwise(path):
        score = score + loss.transitions[before, after]
    for before, after in itertools.pairwise(("O", *(names[tag] for tag in path))):
        if constrained and after[0] == "I" and (before == "O" or before[2:] != after[2:]):
            return torch.full_like(score, -torch.inf)
    return score


@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize("labels", [TAGS, TWO_TYPES], ids=["one type", "two types"])
def test_loss_gradients_and_best_path_over_all_paths(labels: LabelReader, constrained: bool) -> None:
    names = labels.names
    for seed in range(3):
        loss = random_crf(labels, constrained, seed)
        draw = torch.Generator().manual_seed(seed)
        outputs = torch.randn(sum(LENGTHS), len(names), generator=draw, dtype=torch.float64, requires_grad=True)
        tags, expected, best_tags, expected_predictions = [], [], [], []
        for piece in outputs.split(LENGTHS):
            paths = list(itertools.product(range(len(names)), repeat=len(piece)))
            scores = torch.stack([path_score(loss, piece, path, names, constrained) for path in paths])
            possible = torch.isfinite(scores)
            gold = paths[int(possible.nonzero()[seed % int(possible.sum())])]
            tags += gold
            expected.append(torch.logsumexp(scores[possible], dim=0) - scores[paths.index(gold)])
            best_tags += paths[int(scores.argmax())]
            for word in range(len(piece)):
                with_tag = [scores[[path[word] == tag for path in paths]].max() for tag in range(len(names))]
                expected_predictions.append(torch.stack(with_tag).softmax(dim=0))
        lengths, parameters = torch.tensor(LENGTHS), [outputs, *loss.parameters()]
        values = loss(outputs, torch.tensor(tags), lengths)
        assert torch.allclose(values, torch.stack(expected), atol=1e-9)
        gradients = torch.autograd.grad(values.sum(), parameters)
        by_hand = torch.autograd.grad(torch.stack(expected).sum(), parameters)
        for gradient, reference in zip(gradients, by_hand, strict=True):
            assert torch.allclose(gradient, reference, atol=1e-9)
        predictions = loss.predict(outputs, lengths)
        assert predictions.argmax(dim=1).tolist() == best_tags
        assert torch.allclose(predictions, torch.stack(expected_predictions), atol=1e-9)


def test_sentences_do_not_see_each_other() -> None:
    loss = random_crf(TWO_TYPES, True, seed=5)
    outputs = torch.randn(sum(LENGTHS), 4, dtype=torch.float64)
    labels = torch.zeros(sum(LENGTHS), dtype=torch.long)
    together = loss(outputs, labels, torch.tensor(LENGTHS))
    for value, piece in zip(together, outputs.split(LENGTHS), strict=True):
        alone = loss(piece, labels[: len(piece)], torch.tensor([len(piece)]))
        assert torch.allclose(value, alone[0], atol=1e-12)
