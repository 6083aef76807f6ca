"""Parameter groups and the learning rate at each step."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from manyheads.optim import build_optimizer, parameter_groups, rate_factor, set_rates
from manyheads.recipe import Training
from manyheads.registry import find


def test_rate_rises_then_falls_linearly_and_is_never_zero_in_use() -> None:
    found = [rate_factor(step, steps=10, warmup=0.3) for step in range(10)]
    assert found == pytest.approx([1 / 4, 2 / 4, 3 / 4, 1, 6 / 7, 5 / 7, 4 / 7, 3 / 7, 2 / 7, 1 / 7])
    assert [rate_factor(step, 4, 0.0) for step in range(4)] == [1, 0.75, 0.5, 0.25]
    assert all(0 < rate_factor(step, 5, 1.0) < 1 for step in range(5))


def test_biases_and_norms_do_not_decay_and_frozen_tensors_are_left_out() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Embedding(5, 4), nn.Linear(4, 2))
    model[3].requires_grad_(False)
    decayed, plain = parameter_groups(model, Training(weight_decay=0.02))
    assert [tuple(one.shape) for one in decayed["params"]] == [(4, 3), (5, 4)]
    assert [tuple(one.shape) for one in plain["params"]] == [(4,), (4,), (4,)]
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.02, 0.0)


def test_task_weights_have_their_own_rate_and_no_decay() -> None:
    learnt = find("scalarizers", "uncertainty").factory(["a", "b"], rate=0.03)
    *_, group = parameter_groups(nn.Linear(2, 2), Training(weight_decay=0.5), [learnt])
    assert (group["name"], group["weight_decay"], group["lr"], len(group["params"])) == ("task weights", 0.0, 0.03, 2)
    optimizer = build_optimizer(nn.Linear(2, 2), Training(), [learnt])
    set_rates(optimizer, peak=1e-4, factor=0.5)
    assert [one["lr"] for one in optimizer.param_groups] == pytest.approx([5e-5, 5e-5, 0.015])


def test_one_step_of_adamw_by_hand() -> None:
    """m̂ = g, v̂ = g² at the first step: w ← w·(1 − lr·decay) − lr·g/(|g| + ε)."""
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(2.0)
    training = Training(learning_rate=0.1, weight_decay=0.5, epsilon=1e-6)
    optimizer = build_optimizer(model, training)
    model.weight.grad = torch.full_like(model.weight, 3.0)
    optimizer.step()
    assert model.weight.item() == pytest.approx(2.0 * (1 - 0.1 * 0.5) - 0.1 * 3 / (3 + 1e-6), abs=1e-6)
