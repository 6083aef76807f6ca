"""Rates by task and layer: against AdamW itself, and against loops that keep every moment apart."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from command import manyheads
from manyheads.config.training import Training
from manyheads.errors import UserError
from manyheads.model.multitask import ManyHeads
from manyheads.parts.samplers import Batch
from manyheads.parts.scalarizers import Sum
from manyheads.registry import find
from manyheads.tasks.resolve import load_recipe
from manyheads.training.gradients.backward import Backward
from manyheads.training.gradients.combination import Combination
from manyheads.training.optim import build_optimizer, clip_gradients
from manyheads.training.task_adamw import TaskAdamW
from resuming import check_resumed
from three_tasks import NAMES, setting

pytestmark = pytest.mark.numeric

RATE, DECAY, BETAS, EPSILON = 0.1, 0.5, (0.7, 0.9), 0.01
SETTINGS: dict[str, Any] = {"lr": RATE, "weight_decay": DECAY, "betas": BETAS, "eps": EPSILON}
STEPS = 6
# task b rests in the third step
PRESENT = [["a", "b"], ["a", "b"], ["a"], ["a", "b"], ["a", "b"], ["b"]]


def one_rate(**settings: Any) -> Training:
    """Training in which heads have no learning rate of their own, unless it is given."""
    return Training(**{"head_learning_rate": None, "learning_rate": 5e-5, **settings})


def gradients_of(task: str, step: int) -> Tensor:
    return torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(10 * step + ord(task)))


def start() -> Tensor:
    return gradients_of("w", 0)


def stepped(factors: dict[str, float], own: bool, present: list[list[str]]) -> list[Tensor]:
    """The weight after every step, by TaskAdamW."""
    weight = nn.Parameter(start())
    optimizer = TaskAdamW([{"params": [weight]}], {weight: factors}, own, **SETTINGS)
    weights = []
    for step, tasks in enumerate(present):
        gradients = {task: gradients_of(task, step) for task in tasks}
        weight.grad = torch.stack(list(gradients.values())).sum(dim=0)
        optimizer.task_gradients = {weight: gradients}  # type: ignore[dict-item]
        optimizer.step()
        weights.append(weight.detach().clone())
    return weights


def adamw(present: list[list[str]]) -> list[Tensor]:
    weight = nn.Parameter(start())
    optimizer = torch.optim.AdamW([weight], **SETTINGS)
    weights = []
    for step, tasks in enumerate(present):
        weight.grad = torch.stack([gradients_of(task, step) for task in tasks]).sum(dim=0)
        optimizer.step()
        weights.append(weight.detach().clone())
    return weights


def check_equal(found: list[Tensor], expected: list[Tensor]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-13, atol=1e-15)


# --- the formulas ------------------------------------------------------------------------------------------------


def test_one_task_with_an_adamw_of_its_own_is_adamw() -> None:
    check_equal(stepped({"a": 1.0}, own=True, present=[["a"]] * STEPS), adamw([["a"]] * STEPS))


def test_updates_with_factors_of_1_are_adamws_for_any_tasks() -> None:
    found = stepped({"a": 1.0, "b": 1.0}, own=False, present=PRESENT)
    assert all(torch.equal(one, other) for one, other in zip(found, adamw(PRESENT), strict=True))


def test_a_factor_of_all_tasks_is_a_rate_of_updates_and_nothing_of_gradients() -> None:
    """First step, by hand: gradients 3 and 1, rate 0.1, no decay and no ε to speak of: Adam moves by 0.1·sign."""
    for factors, own, moved in (
        ({"a": 2.0, "b": 2.0}, False, 0.2),  # twice the rate
        ({"a": 2.0, "b": 1.0}, False, 0.1 * (2 * 3 + 1 * 1) / 4),  # a has three quarters of the update
        ({"a": 0.0, "b": 1.0}, False, 0.1 * 1 / 4),
        ({"a": 2.0, "b": 1.0}, True, 0.1 * (2 + 1)),  # each AdamW moves by its whole rate
    ):
        weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        optimizer = TaskAdamW([{"params": [weight]}], {weight: factors}, own, lr=0.1, weight_decay=0, eps=1e-12)
        gradients = {"a": torch.full_like(weight, 3.0), "b": torch.full_like(weight, 1.0)}
        weight.grad = torch.full_like(weight, 4.0)
        optimizer.task_gradients = {weight: gradients}  # type: ignore[dict-item]
        optimizer.step()
        assert weight.item() == pytest.approx(-moved, rel=1e-9)
    before_adam = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    plain = torch.optim.AdamW([before_adam], lr=0.1, weight_decay=0, eps=1e-12)
    before_adam.grad = torch.full_like(before_adam, 2.0 * 4.0)  # factors of 2 on the gradients
    plain.step()
    assert before_adam.item() == pytest.approx(-0.1, rel=1e-9)


@pytest.mark.parametrize("own", [False, True], ids=["updates", "own-updates"])
def test_two_tasks_against_a_loop_with_all_moments_apart(own: bool) -> None:
    factors = {"a": 2.5, "b": 0.25}
    weight = start().numpy().copy()
    m = {task: np.zeros((3, 2)) for task in "ab"}
    v = {task: np.zeros((3, 2)) for task in ("a", "b", "all")}
    steps = {"a": 0, "b": 0, "all": 0}
    expected = []
    for step, tasks in enumerate(PRESENT):
        g = {task: gradients_of(task, step).numpy() if task in tasks else np.zeros((3, 2)) for task in "ab"}
        g["all"] = g["a"] + g["b"]
        weight = weight * (1 - RATE * DECAY)
        for task in [*tasks, "all"]:
            steps[task] += 1
            v[task] = BETAS[1] * v[task] + (1 - BETAS[1]) * g[task] ** 2
        for task in tasks if own else "ab":
            m[task] = BETAS[0] * m[task] + (1 - BETAS[0]) * g[task]
            counted = task if own else "all"
            first = m[task] / (1 - BETAS[0] ** steps[counted])
            second = v[counted] / (1 - BETAS[1] ** steps[counted])
            weight = weight - RATE * factors[task] * first / (np.sqrt(second) + EPSILON)
        expected.append(torch.from_numpy(weight.copy()))
    check_equal(stepped(factors, own, PRESENT), expected)


# --- in a training -----------------------------------------------------------------------------------------------

ROUNDS = [
    [Batch("a", np.array([0, 1, 2])), Batch("b", np.array([3, 4])), Batch("c", np.array([1, 5, 0, 2]))],
    [Batch("b", np.array([0, 5])), Batch("c", np.array([3, 4]))],
    [Batch("a", np.array([4, 5])), Batch("b", np.array([1])), Batch("c", np.array([0, 2]))],
]
FACTORS = {"a": {1: 2.0, 2: 0.0}, "c": {1: 0.5, 0: 3.0}}
WEIGHTS = {"a": 0.1, "b": 1.0, "c": 0.2}


def clipped(gradients: list[dict[str, Tensor]], largest: float) -> float:
    """What all gradients of a step are multiplied with, from the norm of their sum."""
    names = {name for one in gradients for name in one}
    squares = 0.0
    for name in names:
        squares += float(sum(one[name] for one in gradients if name in one).square().sum())  # type: ignore[union-attr]
    return min(1.0, largest / (squares**0.5 + 1e-6))


def reference(model: ManyHeads, data: dict[str, Any], training: Training, largest: float) -> None:
    """Every task's gradient by training on it alone, and moments of each task and of all, whole tables."""
    own = training.layer_factors_on == "own-updates"
    alone = Backward(model, data, 10**9, nullcontext)
    fixed = find("scalarizers", "fixed").factory(NAMES, weights=WEIGHTS)
    moments: dict[str, Tensor] = {}
    steps: dict[str, int] = {}
    for batches in ROUNDS:
        gradients = {}
        for batch in batches:
            model.zero_grad(set_to_none=True)
            alone.step([[batch]], Combination(fixed))
            named = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
            gradients[batch.task] = named
        shrink = clipped(list(gradients.values()), largest)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parts = {task: shrink * one[name] for task, one in gradients.items() if name in one}
                if not parts:
                    continue
                in_encoder = name.startswith("encoder.")
                layer = model.encoder.layer_of(name.removeprefix("encoder.")) if in_encoder else -1
                parameter.mul_(1 - training.learning_rate * (training.weight_decay if parameter.ndim > 1 else 0))
                total = torch.stack(list(parts.values())).sum(dim=0)
                groups = parts if own and in_encoder else {"all": total}
                for group, gradient in groups.items():
                    key = f"{name} {group}"
                    steps[key] = steps.get(key, 0) + 1
                    scaled = gradient
                    if in_encoder and not own:
                        scaled = sum(FACTORS.get(task, {}).get(layer, 1.0) * part for task, part in parts.items())  # type: ignore[assignment]
                    m = 0.9 * moments.get(f"{key} m", torch.zeros_like(parameter)) + 0.1 * scaled
                    v = 0.999 * moments.get(f"{key} v", torch.zeros_like(parameter)) + 0.001 * gradient**2
                    moments[f"{key} m"], moments[f"{key} v"] = m, v
                    update = (m / (1 - 0.9 ** steps[key])) / ((v / (1 - 0.999 ** steps[key])).sqrt() + training.epsilon)
                    factor = FACTORS.get(group, {}).get(layer, 1.0) if own and in_encoder else 1.0
                    parameter.sub_(training.learning_rate * factor * update)
    model.zero_grad(set_to_none=True)


@pytest.mark.slow
@pytest.mark.parametrize("on", ["updates", "own-updates"])
@pytest.mark.parametrize("tokens", [10**9, 25], ids=["one pass", "passes"])
def test_steps_of_a_model_against_every_gradient_apart(on: Any, tokens: int, toy_encoder: Path) -> None:
    """With decay, clipping, weights of losses and a task that is absent; heads keep AdamW."""
    training = one_rate(layer_factors_on=on, learning_rate=1e-2, weight_decay=0.3, epsilon=1e-2)
    expected, data = setting(toy_encoder)
    reference(expected, data, training, largest=0.02)
    model, data = setting(toy_encoder)
    optimizer = build_optimizer(model, training, layer_factors=FACTORS)
    assert isinstance(optimizer, TaskAdamW)
    backward = Backward(model, data, tokens, nullcontext)
    backward.task_optimizer = optimizer
    fixed = find("scalarizers", "fixed").factory(NAMES, weights=WEIGHTS)
    for step, batches in enumerate(ROUNDS):
        backward.step([batches], Combination(fixed), (0, step))
        assert clip_gradients(optimizer, 0.02) > 0.02
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    for (name, parameter), other in zip(model.named_parameters(), expected.parameters(), strict=True):
        assert torch.allclose(parameter, other, rtol=1e-9, atol=1e-12), name


def test_gradients_are_kept_apart_only_where_a_factor_asks_for_it(toy_encoder: Path) -> None:
    """Steps of tasks without factors are AdamW's own, in one pass."""
    model, data = setting(toy_encoder)
    optimizer = build_optimizer(
        model, one_rate(layer_factors_on="updates"), layer_factors={"a": {1: 2.0}, "b": {1: 1.0}}
    )
    assert isinstance(optimizer, TaskAdamW)
    backward = Backward(model, data, 10**9, nullcontext)
    backward.task_optimizer = optimizer
    backward.step([ROUNDS[1]], Combination(Sum(NAMES)))
    assert optimizer.task_gradients == {}
    optimizer.zero_grad(set_to_none=True)
    backward.step([ROUNDS[0]], Combination(Sum(NAMES)))
    assert {task for one in optimizer.task_gradients.values() for task in one} == set(NAMES)


TASKS = {
    "mood": {"train": "mood.csv", "layer_factors": {"layers": [2], "chosen": 2, "others": 0.5}},
    "near": {"train": "near.tsv", "range": [0, 5], "layer_factors": {"layers": [1], "chosen": 0}},
}


@pytest.mark.slow
@pytest.mark.parametrize("on", ["updates", "own-updates"])
def test_a_run_resumes_to_the_same_bits(
    on: str, toy_recipe: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    training = {"epochs": 1, "batch_size": 8, "learning_rate": 1e-3, "layer_factors_on": on}
    check_resumed(toy_recipe, monkeypatch, at=5, training=training, tasks=TASKS, sampler="proportional")


def test_the_plan_says_what_it_takes(recipe_file: Callable[..., Path]) -> None:
    planned = manyheads("plan", recipe_file(tasks=TASKS), "training.layer_factors_on=own-updates", "--no-time")
    assert "layer factors on own-updates (4 more copies of the encoder, 0 MB each), losses by sum" in planned.stdout


@pytest.mark.parametrize(
    ("on", "changes", "reason"),
    [
        ("updates", {"training.optimizer": "sgd"}, "'updates' are those of 'adamw', not of 'sgd'"),
        ("updates", {"combine": "pcgrad"}, "'pcgrad' makes one gradient of the tasks', which then have no 'updates'"),
        ("own-updates", {"phases": [{"combine": "mgda"}]}, "'mgda' makes one gradient of the tasks'"),
        ("own-updates", {"regularise": [{"name": "l2"}]}, "'l2' is a penalty that belongs to no task; take 'updates'"),
    ],
)
def test_what_does_not_go_together_is_refused(
    on: str, changes: dict[str, Any], reason: str, recipe_file: Callable[..., Path]
) -> None:
    with pytest.raises(UserError) as fault:
        load_recipe(recipe_file(tasks=TASKS), {"training.layer_factors_on": on, **changes})
    assert f"training.layer_factors_on: {reason}" in str(fault.value)
    assert fault.value.code == "bad-recipe"
    accepted = {"regularise": [{"name": "l2"}]}  # a penalty is part of the one AdamW's gradient
    assert load_recipe(recipe_file(tasks=TASKS), {"training.layer_factors_on": "updates", **accepted})
