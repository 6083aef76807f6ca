"""`mixture`: who gets how much of a budget, evenly spread, and the gradient that its rounds have on average."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch

from manyheads.parts.samplers import Batch, Mixture, SamplerInput
from manyheads.parts.samplers.mixture import deal_out
from manyheads.parts.scalarizers import Sum
from manyheads.training.gradients.backward import Backward
from manyheads.training.gradients.combination import Combination
from three_tasks import NAMES, setting


def mixture_of(sizes: dict[str, int], round_size: int, epochs: int = 3, **options: float | None) -> Mixture:
    sampler_input = SamplerInput(sizes, dict.fromkeys(sizes, 4), seed=5, epochs=epochs, round_size=round_size)
    return Mixture(sampler_input, **options)  # type: ignore[arg-type]


# --- who gets how much ---------------------------------------------------------------------------------------------


def test_shares_by_hand() -> None:
    sizes = {"large": 900, "small": 100}
    assert deal_out(3000, sizes, alpha=1.0, max_passes=None) == {"large": 2700, "small": 300}
    assert deal_out(3000, sizes, alpha=0.0, max_passes=None) == {"large": 1500, "small": 1500}
    # √900 : √100 = 3 : 1
    assert deal_out(3000, sizes, alpha=0.5, max_passes=None) == {"large": 2250, "small": 750}


def test_what_a_capped_task_leaves_goes_to_the_others() -> None:
    # by √N: 30 : 10 : 10 of 5,000 are 3,000, 1,000 and 1,000; two are capped at 300, and 4,400 are left for the third
    sizes = {"large": 900, "small": 100, "other": 100}
    assert deal_out(5000, sizes, alpha=0.5, max_passes=3) == {"large": 2700, "small": 300, "other": 300}
    assert deal_out(2000, sizes, alpha=0.5, max_passes=3) == {"large": 1400, "small": 300, "other": 300}
    assert deal_out(1, {"a": 10, "b": 10}, 1.0, None) == {"a": 1, "b": 1}, "no task is left out altogether"


def test_counts_are_exact_and_evenly_spread() -> None:
    sampler = mixture_of({"large": 900, "small": 100}, round_size=20, alpha=0.5, max_passes=4)
    assert sampler.examples == {"large": 2600, "small": 400}
    seen: dict[str, list[int]] = {"large": [], "small": []}
    for index in range(sampler.rounds):
        for batch in sampler.round(index):
            seen[batch.task].append(len(batch.indices))
    assert {task: sum(counts) for task, counts in seen.items()} == sampler.examples
    assert sampler.rounds == 150
    for task, counts in seen.items():
        exact = sampler.examples[task] / sampler.rounds
        for length in (1, 10, 50):  # in any stretch a task has what it should, to within one example
            for first in range(sampler.rounds - length):
                assert abs(sum(counts[first : first + length]) - length * exact) < 1 + 1e-9


def test_every_pass_sees_every_example_once() -> None:
    sampler = mixture_of({"a": 30, "b": 7}, round_size=5, alpha=0.0, max_passes=None)
    rows: dict[str, list[int]] = {"a": [], "b": []}
    for index in range(sampler.rounds):
        for batch in sampler.round(index):
            rows[batch.task] += batch.indices.tolist()
    for task, size in (("a", 30), ("b", 7)):
        for first in range(0, len(rows[task]) - size, size):
            assert Counter(rows[task][first : first + size]) == Counter(range(size))


def test_tasks_of_the_same_rows_come_together() -> None:
    sampler_input = SamplerInput(
        {"coarse": 50, "fine": 50, "other": 80},
        dict.fromkeys(("coarse", "fine", "other"), 4),
        seed=1,
        epochs=2,
        row_groups={"coarse": "both", "fine": "both"},
        round_size=9,
    )
    sampler = Mixture(sampler_input)
    for index in range(sampler.rounds):
        drawn = {batch.task: batch.indices.tolist() for batch in sampler.round(index)}
        assert drawn.get("coarse") == drawn.get("fine")


def test_a_loss_that_compares_examples_gets_whole_batches() -> None:
    sampler_input = SamplerInput(
        {"ranked": 40, "other": 100},
        {"ranked": 8, "other": 8},
        seed=1,
        epochs=2,
        round_size=10,
        whole_batch=frozenset({"ranked"}),
    )
    sampler = Mixture(sampler_input, alpha=1.0)
    sizes = []
    for index in range(sampler.rounds):
        sizes += [len(batch.indices) for batch in sampler.round(index) if batch.task == "ranked"]
    assert set(sizes) == {8}
    assert abs(sum(sizes) - 80) < 8


# --- the gradient --------------------------------------------------------------------------------------------------


@pytest.mark.numeric
def test_the_mean_gradient_of_its_rounds_is_that_of_one_task_rounds_drawn_by_share(toy_encoder: Path) -> None:
    """(1/R)·Σ_r g_r = Σ_i p_i·(mean gradient of task i), where the mean over examples gives g_r."""
    model, data = setting(toy_encoder)
    sizes = {"a": 6, "b": 3, "c": 3}  # rows of three_tasks; one pass with 4 in a round: 2 of a, 1 of b, 1 of c
    sampler = mixture_of(sizes, round_size=4, epochs=1, alpha=1.0, max_passes=None)
    combination = Combination(Sum(NAMES), average="examples")

    def gradient(batches: list[Batch]) -> dict[str, torch.Tensor]:
        model.zero_grad(set_to_none=True)
        Backward(model, data, 10**9, nullcontext).step([batches], combination)
        gradients = {}
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                gradients[name] = parameter.grad.clone()
        return gradients

    mixed: dict[str, torch.Tensor] = {}
    for index in range(sampler.rounds):
        for name, value in gradient(sampler.round(index)).items():
            mixed[name] = mixed.get(name, torch.zeros_like(value)) + value / sampler.rounds
    drawn: dict[str, torch.Tensor] = {}
    for task, size in sizes.items():
        for name, value in gradient([Batch(task, np.arange(size))]).items():
            drawn[name] = drawn.get(name, torch.zeros_like(value)) + size / 12 * value
    assert mixed.keys() == drawn.keys()
    largest = max(float(value.abs().max()) for value in drawn.values())
    for name, value in drawn.items():
        assert (mixed[name] - value).abs().max() < 1e-12 * largest, name
