"""The anchor against a float64 reference that encodes one text at a time."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from building import CLASSES, NUMBERS, TWO, a_task, columns
from manyheads.config.part import PartConfig
from manyheads.encoder import Encoder
from manyheads.model.multitask import ManyHeads
from manyheads.parts.regularisers import build_regularisers
from manyheads.parts.samplers import Batch
from manyheads.tokens.packing import Sequence, pack
from regularised_step import build, disturb, run
from three_tasks import NAMES, ROUND, Rows, setting

pytestmark = pytest.mark.numeric
LOWER = PartConfig(name="mean", options={"layer": 1})  # of two: without the anchor the last layer is not run
READS = {
    "mean": lambda states: states.mean(dim=0),
    "first": lambda states: states[0],
    "last": lambda states: states[-1],
}


def anchored_setting(folder: Path, **encoder: Any) -> tuple[ManyHeads, dict[str, Rows]]:
    """One text and its first token; two texts and a lower layer; two texts beside an input of both."""
    tasks = [
        a_task(name="a", labels=CLASSES, encoding="single", pooling="first"),
        a_task(name="b", labels=TWO, encoding="bi-concat", pooling=LOWER),
        a_task(name="c", labels=NUMBERS, encoding="cross-bi", pooling="mean"),
    ]
    return setting(folder, tasks, **encoder)


def vector(model: ManyHeads, encoder: Encoder, side: int, row: int, reads: str) -> torch.Tensor:
    """The sentence vector of one text, alone in its pass."""
    ids, segments = model.tokenizer.special_tokens.single(columns(model)[side][row], model.max_length)
    return READS[reads](encoder(pack([Sequence(ids, segments)])))


@pytest.mark.slow
@pytest.mark.parametrize("reads", READS)
def test_anchor_equals_a_slow_reference(reads: str, toy_encoder: Path) -> None:
    """λ·Σ over tasks of the mean over examples of the mean over texts of 1 − v·v₀/(‖v‖·‖v₀‖), and its gradient."""
    model, data = anchored_setting(toy_encoder)
    anchor = build("anchor", weight=2.0, reads=reads)
    anchor.begin(model)
    start = copy.deepcopy(model.encoder)
    disturb(model)
    plain, before = run(model, data, [])
    found, done = run(model, data, [anchor])
    total = torch.zeros((), dtype=torch.float64)
    for batch in ROUND:
        sides = len(model.tasks[batch.task].columns.text)
        for row in batch.indices.tolist():
            for side in range(sides):
                v, v0 = (vector(model, encoder, side, row, reads) for encoder in (model.encoder, start))
                apart = 1 - (v @ v0.detach()) / (v.norm() * v0.detach().norm())
                total = total + apart / sides / len(batch.indices)
    assert total.item() > 1e-3, "weights were moved far enough to see it"
    assert done.terms["anchor"] == pytest.approx(2 * total.item(), rel=1e-9)
    assert sum(done.losses.values()) == pytest.approx(sum(before.losses.values()) + 2 * total.item(), rel=1e-9)
    total.backward()
    for name, parameter in model.named_parameters():
        if name not in found:
            continue
        expected = torch.zeros_like(parameter)
        if parameter.grad is not None:
            assert name.startswith("encoder."), "the term reads no head"
            expected = 2 * parameter.grad
        assert torch.allclose(found[name] - plain.get(name, 0.0), expected, atol=1e-11), name


def test_anchor_is_zero_at_the_start_and_pulls_nowhere(toy_encoder: Path) -> None:
    model, data = anchored_setting(toy_encoder)
    anchor = build("anchor", weight=100.0)
    anchor.begin(model)
    plain, _ = run(model, data, [])
    found, done = run(model, data, [anchor])
    assert done.terms["anchor"] == pytest.approx(0, abs=1e-12)
    for name, gradient in found.items():
        assert torch.allclose(gradient, plain.get(name, torch.zeros_like(gradient)), atol=1e-12), name


def test_the_start_never_moves_and_has_no_dropout(toy_encoder: Path) -> None:
    model, data = anchored_setting(toy_encoder, dropout=0.3, attention_dropout=0.2)
    model.train()
    anchor: Any = build("anchor")
    anchor.begin(model)
    kept = {name: tensor.clone() for name, tensor in anchor.state_dict().items()}
    (first, one), (_, again) = (run(model, data, [anchor]) for _ in range(2))
    assert one.terms == again.terms, "a step draws the same masks"
    assert one.terms["anchor"] > 1e-3, "v has the dropout of the pass, v₀ has none"
    disturb(model)
    assert not any(parameter.requires_grad for parameter in anchor.parameters())
    assert all(torch.equal(tensor, kept[name]) for name, tensor in anchor.state_dict().items())
    assert any(name.startswith("encoder.") for name in first)


def test_neighbours_have_the_masks_of_the_pass(toy_encoder: Path) -> None:
    """Beside it heads read lower layers, and others run the pass again: with equal masks their terms vanish."""
    model, data = anchored_setting(toy_encoder, dropout=0.3, attention_dropout=0.2)
    for head in model.heads.values():
        head.head.dropout.rate = 0.4  # drawn after the encoder's
    model.train()
    beside = [build("anchor"), build("smart", form="ball", sigma=1e-12, epsilon=1e-12, eta=1e-12), build("bregman")]
    for regulariser in beside:
        regulariser.begin(model)
    _, done = run(model, data, beside)
    assert done.terms["smart"] < 1e-15
    assert done.terms["bregman"] < 1e-15
    assert done.terms["anchor"] > 1e-3


def test_the_term_does_not_depend_on_how_a_step_is_cut(toy_encoder: Path) -> None:
    """Accumulated, or under a token budget: the same losses and gradient."""
    model, data = anchored_setting(toy_encoder)
    anchor = build("anchor")
    anchor.begin(model)
    disturb(model)
    whole, done = run(model, data, [anchor])
    halves = [[Batch(b.task, b.indices[:1]) for b in ROUND], [Batch(b.task, b.indices[1:]) for b in ROUND]]
    for more in ({"rounds": halves}, {"tokens": 20}):
        found, again = run(model, data, [anchor], **more)
        assert again.losses == pytest.approx(done.losses, rel=1e-9)
        for name, gradient in whole.items():
            assert torch.allclose(found[name], gradient, atol=1e-11), name


def test_weight_0_is_none() -> None:
    assert build_regularisers([PartConfig(name="anchor", options={"weight": 0.0})], NAMES) == ()
