"""Outputs by hand: a task from 0 to 5 whose loss sees (label − 1) / 2, so that its range is −0.5 to 2."""

from __future__ import annotations

import math

import pytest
import torch

from building import NUMBERS, TWO, a_task
from manyheads.registry import find

pytestmark = pytest.mark.numeric
TASK = a_task(labels=NUMBERS, offset=1.0, unit=2.0)


def out(name: str, x: list[float], task: object = TASK) -> list[float]:
    return find("outputs", name).factory(task)(torch.tensor(x, dtype=torch.float64)).tolist()


def test_outputs_of_numbers() -> None:
    assert TASK.scaled_bounds == (-0.5, 2.0)
    assert out("raw", [-9.0, 0.3]) == [-9.0, 0.3]
    assert out("clamp", [-9.0, 0.3, 7.0]) == [-0.5, 0.3, 2.0]
    assert out("sigmoid", [0.0, math.log(3)]) == pytest.approx([0.75, -0.5 + 2.5 * 0.75])
    assert out("similarity", [0.0, 0.5, 1.0]) == pytest.approx([-0.5, 0.75, 2.0])


def test_sigmoid_on_the_raw_scale_is_the_papers_five_sigmoid() -> None:
    raw = a_task(labels=NUMBERS, offset=0.0, unit=1.0)
    assert out("sigmoid", [math.log(3)], raw) == pytest.approx([5 * 0.75])


def test_a_similarity_is_a_probability_of_two_classes() -> None:
    """Its log-odds, clamped at 1e-6: what binary cross-entropy then sees is the probability itself."""
    two = a_task(labels=TWO, encoding="bi-cosine")
    found = out("similarity", [0.75, 0.0, 1.0], two)
    assert found == pytest.approx([math.log(3), math.log(1e-6), -math.log(1e-6)], rel=1e-5)
    loss = find("losses", "binary-cross-entropy").factory(two)
    values = loss(torch.tensor(found)[:, None], torch.tensor([1, 1, 1]))
    assert values.tolist() == pytest.approx([-math.log(0.75), -math.log(1e-6), 0.0], abs=1e-5)


def test_only_clamped_outputs_stop_learning() -> None:
    for name, learns in (("clamp", False), ("sigmoid", True), ("raw", True)):
        x = torch.tensor([3.0], requires_grad=True)
        find("outputs", name).factory(TASK)(x).sum().backward()
        assert x.grad is not None
        assert bool(x.grad.abs().sum() > 0) == learns
