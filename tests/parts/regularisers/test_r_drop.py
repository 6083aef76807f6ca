"""R-Drop by hand, and against two float64 passes that draw the same masks."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from building import CLASSES, MULTI, NUMBERS, TWO, a_task
from manyheads.model.multitask import ManyHeads
from manyheads.parts.regularisers import ForwardPass
from manyheads.parts.scalarizers import Sum
from manyheads.registry import find
from manyheads.seeding import seeded_rng
from manyheads.training.gradients.combination import Combination
from regularised_step import build, run
from three_tasks import NAMES, ROUND, setting

pytestmark = pytest.mark.numeric
DROPOUT = {"dropout": 0.3, "attention_dropout": 0.2}


class TwoPasses(ForwardPass):
    """A pass whose second drawing is given."""

    def __init__(self, loss: Any, first: torch.Tensor, second: torch.Tensor) -> None:
        object.__setattr__(self, "model", SimpleNamespace(head=lambda task: SimpleNamespace(loss=loss)))
        object.__setattr__(self, "packed", SimpleNamespace(tasks=["a"]))
        object.__setattr__(self, "outputs", [first])
        object.__setattr__(self, "second", [second])

    def redrawn(self) -> list[torch.Tensor]:
        return self.second  # type: ignore[attr-defined, no-any-return]


def term(labels: Any, loss: str, first: list[list[float]], second: list[list[float]]) -> list[float]:
    built = find("losses", loss).factory(a_task(labels=labels, loss=loss))
    tensors = [torch.tensor(outputs, dtype=torch.float64) for outputs in (first, second)]
    (terms,) = build("r-drop").terms(TwoPasses(built, *tensors))
    return terms.tolist()


# p₁ = (½, ½), p₂ = (¾, ¼): KL(p₁‖p₂) = ½·ln(⅔) + ½·ln 2 = .14384, KL(p₂‖p₁) = ¾·ln 1.5 + ¼·ln ½ = .13081
HALF_OF_BOTH = (0.143841036 + 0.130812036) / 2


def test_classes_by_hand() -> None:
    zero, log3 = 0.0, math.log(3)
    far = -60.0  # a third class of no probability
    assert term(CLASSES, "cross-entropy", [[zero, zero, far]], [[log3, zero, far]]) == pytest.approx([HALF_OF_BOTH])
    assert term(CLASSES, "cross-entropy", [[log3, zero, far]], [[zero, zero, far]]) == pytest.approx([HALF_OF_BOTH])


def test_each_class_that_is_a_yes_or_no_by_hand() -> None:
    log3 = math.log(3)  # whose sigmoid is ¾
    assert term(TWO, "binary-cross-entropy", [[0.0]], [[log3]]) == pytest.approx([HALF_OF_BOTH])
    several = term(MULTI, "binary-cross-entropy", [[0.0, 1.0, log3]], [[log3, 1.0, 0.0]])
    assert several == pytest.approx([2 * HALF_OF_BOTH]), "summed over classes, of which the second is the same"


def test_numbers_by_hand() -> None:
    assert term(NUMBERS, "mse", [[0.5], [1.0]], [[-0.25], [1.0]]) == pytest.approx([0.5625, 0.0])


def dropping_setting(folder: Path) -> Any:
    """Three tasks in training mode, with heads that turn small differences into large ones."""
    model, data = setting(folder, **DROPOUT)
    with torch.no_grad():
        for parameter in model.heads.parameters():
            parameter.mul_(20)
    return model.train(), data


def half_symmetric_kl(model: ManyHeads, task: str, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Σ over examples, by torch's own KL."""
    if model.tasks[task].kind.name == "regression":
        return ((first - second) ** 2).sum()
    if first.shape[-1] == 1:
        first, second = (torch.cat([torch.zeros_like(z), z], dim=-1) for z in (first, second))
    log_p, log_q = first.log_softmax(-1), second.log_softmax(-1)
    kl = torch.nn.functional.kl_div
    both = kl(log_q, log_p, reduction="sum", log_target=True) + kl(log_p, log_q, reduction="sum", log_target=True)
    return both / 2


def reference(model: ManyHeads, data: dict[str, Any], passes: list[str], on: str) -> torch.Tensor:
    """The terms' means, summed over the tasks in `on`: each group of tasks has two passes, one after the other."""
    total = torch.zeros((), dtype=torch.float64)
    with seeded_rng(0, 1, "step"):
        for tasks in passes:
            batches = [batch for batch in ROUND if batch.task in tasks]
            inputs = [
                (batch.task, [data[batch.task].inputs(model, int(row)) for row in batch.indices]) for batch in batches
            ]
            first = model(inputs)
            if not set(tasks) & set(on):
                continue
            for batch, outputs, again in zip(batches, first, model(inputs), strict=True):
                total = total + half_symmetric_kl(model, batch.task, outputs, again) / len(batch.indices)
    return total


@pytest.mark.parametrize(("on", "passes"), [("abc", ["abc"]), ("ac", ["ac", "b"])], ids=["all tasks", "some tasks"])
def test_two_passes_in_float64(on: str, passes: list[str], toy_encoder: Path) -> None:
    """The term and its gradient, which goes through both passes; tasks without it have a pass of their own."""
    model, data = dropping_setting(toy_encoder)
    expected = reference(model, data, passes, on)
    expected.backward()
    slopes = {name: parameter.grad for name, parameter in model.named_parameters()}
    found, done = run(model, data, [build("r-drop", weight=0.7, tasks=list(on))])
    assert done.terms["r-drop"] == pytest.approx(0.7 * expected.item(), rel=1e-9)
    assert expected.item() > 0.01
    doubled, _ = run(model, data, [build("r-drop", weight=1.4, tasks=list(on))])
    for name, gradient in found.items():  # the losses' own gradient is in both
        slope = slopes[name] if slopes[name] is not None else torch.zeros_like(gradient)
        assert torch.allclose(doubled[name] - gradient, 0.7 * slope, atol=1e-11), name


def test_task_by_task_and_in_pieces(toy_encoder: Path) -> None:
    model, data = dropping_setting(toy_encoder)
    surgery = Combination(Sum(NAMES), find("aggregators", "pcgrad").factory(NAMES))
    _, done = run(model, data, [build("r-drop")], how=surgery)
    assert done.terms["r-drop"] == pytest.approx(0.5 * reference(model, data, ["a", "b", "c"], "abc").item(), rel=1e-9)
    _, pieces = run(model, data, [build("r-drop")], tokens=20)
    assert pieces.terms["r-drop"] > 0
    assert pieces.losses != done.losses, "other passes draw other masks"


def test_without_dropout_the_term_is_exactly_nothing(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    model.train()
    plain, before = run(model, data, [])
    found, done = run(model, data, [build("r-drop", weight=5.0)])
    assert done.terms == {"r-drop": 0.0}
    assert done.losses == before.losses
    assert all(torch.equal(gradient, plain[name]) for name, gradient in found.items())


def test_the_first_pass_is_that_of_plain_training(toy_encoder: Path) -> None:
    model, data = dropping_setting(toy_encoder)
    _, plain = run(model, data, [])
    _, done = run(model, data, [build("r-drop", weight=0.5)])
    added = sum(done.losses[task] - plain.losses[task] for task in NAMES)
    assert added == pytest.approx(done.terms["r-drop"], rel=1e-9), "a task's loss is the first pass's, and the term"
