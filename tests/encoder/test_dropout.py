"""The cheap mask: right rate in every lane, right scale, right gradient, decided by the seed."""

from __future__ import annotations

import pytest
import torch

from manyheads.encoder.dropout import FEW, LANES, Dropout, dropout
from manyheads.seeding import seeded_rng

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_rate_in_every_lane(rate: float) -> None:
    count = 1_000_000
    with seeded_rng(0, "test"):
        kept = dropout(torch.ones(count), rate) != 0
    for lane in range(LANES):
        share = kept[lane::LANES].float().mean().item()
        spread = (rate * (1 - rate) / (count / LANES)) ** 0.5
        assert abs(share - (1 - rate)) < 5 * spread + 1 / 65536
    neighbours = (kept[0::LANES] == kept[1::LANES]).float().mean().item()
    assert abs(neighbours - (rate**2 + (1 - rate) ** 2)) < 0.005, "lanes of one word are independent"


@pytest.mark.parametrize("count", [77, FEW + 1], ids=["drawn by torch", "not a whole number of words"])
def test_kept_values_and_gradients_are_scaled(count: int) -> None:
    values = torch.full((count,), 3.0, requires_grad=True)
    with seeded_rng(1, "test"):
        result = dropout(values, 0.25)
    assert set(result.unique().tolist()) == {0.0, 4.0}
    result.sum().backward()
    assert values.grad is not None
    assert torch.equal(values.grad, result.detach() / 3.0)


@pytest.mark.parametrize("count", [1000, 10_000], ids=["drawn by torch", "by numpy"])
def test_same_words_same_mask_and_the_outer_generator_is_untouched(count: int) -> None:
    values = torch.ones(count)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with seeded_rng(0, 7, "step"):
        first = dropout(values, 0.5)
    with seeded_rng(0, 7, "step"):
        again = dropout(values, 0.5)
    with seeded_rng(0, 8, "step"):
        other = dropout(values, 0.5)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.rand(3), expected)


def test_module_is_off_in_evaluation_and_at_rate_zero() -> None:
    values = torch.ones(100)
    assert torch.equal(Dropout(0.5).eval()(values), values)
    assert torch.equal(Dropout(0.0).train()(values), values)
    assert not torch.equal(Dropout(0.5).train()(values), values)


@pytest.mark.parametrize("rate", [0.999, 0.99999, 0.999999])
def test_a_rate_near_one_drops_nearly_everything(rate: float) -> None:
    with seeded_rng(0, "test"):
        assert (dropout(torch.ones(10_000), rate) != 0).float().mean().item() < 0.01
