"""`combine.average`: what a task's loss is the mean of, where a step has several rounds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from building import NUMBERS, a_task
from manyheads.config.training import Average
from manyheads.model.multitask import ManyHeads
from manyheads.parts.aggregators import Aggregator
from manyheads.parts.regularisers import Regulariser
from manyheads.parts.regularisers.base import ForwardPass
from manyheads.parts.samplers import Batch, Capped, SamplerInput
from manyheads.parts.scalarizers import Mean, Scalarizer, Sum
from manyheads.registry import find
from manyheads.training.distributed import Processes
from manyheads.training.gradients.backward import Backward, Step
from manyheads.training.gradients.combination import Combination
from manyheads.training.gradients.passes import divisors_of, shares_of_rounds
from three_tasks import NAMES, setting

pytestmark = pytest.mark.numeric

Gradients = dict[str, Tensor]

# task a is in three of four rounds (once with a short batch), b in one, c in all of them
A1, A2, A3 = (Batch("a", np.array(rows)) for rows in ([0, 1, 2], [3, 4], [5]))
B1 = Batch("b", np.array([1, 2, 3, 4]))
C1, C2, C3, C4 = (Batch("c", np.array(rows)) for rows in ([0, 1], [2, 3], [4, 5], [1, 2]))
FOUR_ROUNDS = [[A1, C1], [A2, B1, C2], [C3], [A3, C4]]
SHARES = {"a": 0.75, "c": 1.0, "b": 0.25}


def run(
    model: ManyHeads,
    data: dict[str, Any],
    rounds: list[list[Batch]],
    combination: Combination,
    tokens: int = 10**9,
    regularisers: Sequence[Regulariser] = (),
    processes: Processes | None = None,
) -> tuple[Gradients, Step]:
    model.zero_grad(set_to_none=True)
    backward = Backward(model, data, tokens, nullcontext, processes)
    done = backward.step(rounds, combination, (0, 1), regularisers)
    return {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}, done


def by_batch(scalarizer: Scalarizer | None = None, aggregator: Aggregator | None = None) -> Combination:
    return Combination(scalarizer or Sum(NAMES), aggregator, average="batch")


def batch_by_batch(
    model: ManyHeads,
    data: dict[str, Any],
    regularisers: Sequence[Regulariser] = (),
    weights: dict[str, float] | None = None,
) -> tuple[Gradients, dict[str, float]]:
    """The reference, as a plain accumulation loop: a backward of every batch's own mean, divided by the four rounds."""
    total: Gradients = {}
    losses: dict[str, float] = {}
    for batches in FOUR_ROUNDS:
        for batch in batches:
            gradient, done = run(model, data, [[batch]], Combination(Sum(NAMES)), regularisers=regularisers)
            losses[batch.task] = losses.get(batch.task, 0.0) + done.losses[batch.task] / 4
            for name, value in gradient.items():
                weight = (weights or {}).get(batch.task, 1.0)
                total[name] = total.get(name, torch.zeros_like(value)) + weight * value / 4
    return total, losses


def check_equal(found: Gradients, expected: Gradients) -> None:
    assert found.keys() == expected.keys()
    largest = max(float(value.abs().max()) for value in expected.values())
    for name, value in expected.items():
        assert (found[name] - value).abs().max() < 1e-12 * largest, name


# --- the weights of batches --------------------------------------------------------------------------------------


def test_divisors_and_shares_by_hand() -> None:
    assert divisors_of(FOUR_ROUNDS, "step") == [{"a": 6, "b": 4, "c": 8}] * 4
    assert divisors_of(FOUR_ROUNDS, "batch") == [
        {"a": 12, "c": 8},
        {"a": 8, "b": 16, "c": 8},
        {"c": 8},
        {"a": 4, "c": 8},
    ]
    assert divisors_of(FOUR_ROUNDS, "examples") == [{"a": 18, "b": 18, "c": 18}] * 4
    assert shares_of_rounds(FOUR_ROUNDS, "examples") == {"a": 6 / 18, "c": 8 / 18, "b": 4 / 18}
    assert shares_of_rounds(FOUR_ROUNDS, "batch") == SHARES
    assert shares_of_rounds(FOUR_ROUNDS, "step") == dict.fromkeys(SHARES, 1.0)
    assert divisors_of([[A1], [], [A2]], "batch") == [{"a": 6}, {}, {"a": 4}], "a round without batches is none"


@dataclass(frozen=True)
class Shares:
    """Quora's shares, in per cent."""

    batches: float
    loss: float


def quora(average: Average, scalarizer: type[Scalarizer]) -> Shares:
    """Paper D's data, cap 5, a step of 4 rounds; the loss of every example is 1."""
    sizes = {"sst": 8544, "quora": 141_506, "sts": 6041}
    sampler = Capped(SamplerInput(sizes, dict.fromkeys(sizes, 16), seed=0), repeats=5)
    combined = scalarizer(list(sizes))
    batches, losses = dict.fromkeys(sizes, 0), dict.fromkeys(sizes, 0.0)
    for first in range(0, sampler.epochs[0], 4):
        rounds = [sampler.round(index) for index in range(first, min(first + 4, sampler.epochs[0]))]
        shares = shares_of_rounds(rounds, average)
        factors = combined.factors(dict.fromkeys(shares, 1.0))
        for drawn, divisors in zip(rounds, divisors_of(rounds, average), strict=True):
            for batch in drawn:
                batches[batch.task] += 1
                losses[batch.task] += factors[batch.task] * len(batch.indices) / divisors[batch.task]
    return Shares(100 * batches["quora"] / sum(batches.values()), 100 * losses["quora"] / sum(losses.values()))


@pytest.mark.slow
def test_paper_d_quora_is_as_much_of_the_loss_as_of_the_batches() -> None:
    """By hand: 141,506 of 141,506 + 5·8,544 + 5·6,041 examples are 66.0 %. Averaged over the step, Quora and SST are in
    every step and STS in 4·5·6,041/141,506 = 85 % of them: of losses divided by the tasks of the step that is
    .85/3 + .15/2 = 36 %. A mean of batches leaves but that division: steps without STS are divided by 2, not by 3."""
    assert quora("batch", Sum).batches == pytest.approx(66.0, abs=0.05)
    assert quora("batch", Sum).loss == pytest.approx(66.0, abs=0.05)
    assert quora("batch", Mean).loss == pytest.approx(66.6, abs=0.1)
    assert quora("step", Mean).loss == pytest.approx(35.8, abs=0.1)


# --- the gradient ------------------------------------------------------------------------------------------------


def test_one_round_is_the_same_to_the_last_bit(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    found, done = run(model, data, [[A1, B1, C1]], by_batch())
    expected, by_step = run(model, data, [[A1, B1, C1]], Combination(Sum(NAMES)))
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    assert done.losses == by_step.losses


@pytest.mark.parametrize("tokens", [10**9, 25])
def test_a_step_is_the_mean_over_rounds_of_batch_means(tokens: int, toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    expected, losses = batch_by_batch(model, data)
    found, done = run(model, data, FOUR_ROUNDS, by_batch(), tokens)
    check_equal(found, expected)
    assert done.losses == pytest.approx(losses, rel=1e-12)
    assert done.mean_losses == pytest.approx({task: loss / SHARES[task] for task, loss in losses.items()}, rel=1e-12)
    by_step, _ = run(model, data, FOUR_ROUNDS, Combination(Sum(NAMES)))
    assert not any(torch.allclose(by_step[name], value) for name, value in found.items() if "layers.1" in name)


class InTurn(Aggregator):
    """Σ i·g_i: other weights for each task, so that what is taken apart is seen."""

    def forward(self, gramian: Tensor, present: Sequence[str]) -> Tensor:
        return torch.arange(1.0, len(present) + 1, dtype=torch.float64)


def test_weights_act_on_the_tasks_sum_of_batch_means(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    weights = {"a": 0.3, "b": 2.0, "c": 0.5}
    fixed = find("scalarizers", "fixed").factory(NAMES, weights=weights)
    check_equal(run(model, data, FOUR_ROUNDS, by_batch(fixed))[0], batch_by_batch(model, data, weights=weights)[0])


def test_an_aggregator_sees_gradients_of_these_sums(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    found, done = run(model, data, FOUR_ROUNDS, by_batch(aggregator=InTurn(NAMES)))
    order = {task: number for number, task in enumerate(done.weights, 1)}
    expected, _ = batch_by_batch(model, data, weights={task: float(number) for task, number in order.items()})
    plain, _ = batch_by_batch(model, data)
    heads = {name: value for name, value in plain.items() if name.startswith("heads.")}
    check_equal(found, {**expected, **heads})


def test_learnt_weights_learn_from_these_sums(toy_encoder: Path) -> None:
    """Kendall's e^(−w)·L + w at w = 0 has the derivative 1 − L."""
    model, data = setting(toy_encoder)
    _, losses = batch_by_batch(model, data)
    uncertainty = find("scalarizers", "uncertainty").factory(NAMES)
    run(model, data, FOUR_ROUNDS, by_batch(uncertainty))
    for task, loss in losses.items():
        assert uncertainty.w[f"{task}-weight"].grad.item() == pytest.approx(1 - loss, rel=1e-6)


class Squares(Regulariser):
    """The squared outputs of every example."""

    name = "squares"

    def terms(self, forward_pass: ForwardPass) -> list[Tensor]:
        return [output.square().sum(dim=-1) for output in forward_pass.outputs]


def test_terms_of_regularisers_are_averaged_like_losses(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    squares = Squares(NAMES, 0.7, ["a", "b"])
    expected, losses = batch_by_batch(model, data, [squares])
    found, done = run(model, data, FOUR_ROUNDS, by_batch(), regularisers=[squares])
    check_equal(found, expected)
    _, plain = batch_by_batch(model, data)
    assert done.terms["squares"] == pytest.approx(sum(losses.values()) - sum(plain.values()), rel=1e-9)


def test_a_loss_over_the_whole_batch_is_one_term_a_batch(toy_encoder: Path) -> None:
    task = a_task(name="c", labels=NUMBERS, loss="pearson-loss")
    model, data = setting(toy_encoder, [task])
    rounds = [[C1], [Batch("c", np.array([4, 0, 5]))]]
    halves = [run(model, data, [batches], Combination(Sum(["c"])))[0] for batches in rounds]
    expected = {name: (value + halves[1][name]) / 2 for name, value in halves[0].items()}
    check_equal(run(model, data, rounds, by_batch(Sum(["c"])))[0], expected)


class OneOfTwo(Processes):
    """A process that takes its slice, and whose gradients the test adds up."""

    def any(self, flags: list[bool]) -> list[bool]:
        return flags

    def add(self, tensors: list[Tensor]) -> None:
        """Nothing: the other process is run after this one."""

    def most(self, tensor: Tensor) -> None:
        """Nothing either."""


def test_slices_of_two_processes_add_up(toy_encoder: Path) -> None:
    """A slice is divided by the whole batch's examples, not by its own."""
    model, data = setting(toy_encoder)
    expected, done = run(model, data, FOUR_ROUNDS, by_batch())
    halves = [run(model, data, FOUR_ROUNDS, by_batch(), processes=OneOfTwo(rank, 2)) for rank in (0, 1)]
    names = halves[0][0].keys() | halves[1][0].keys()
    total = {name: sum(half[name] for half, _ in halves if name in half) for name in names}
    check_equal(total, expected)  # type: ignore[arg-type]
    for task, loss in done.losses.items():
        assert sum(half.losses[task] for _, half in halves) == pytest.approx(loss, rel=1e-12)
