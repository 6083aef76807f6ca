"""Each loss against numbers worked out by hand or in float64 from its formula."""

from __future__ import annotations

import math

import pytest
import torch

from manyheads.losses import BinaryCrossEntropy, CrossEntropy, MeanSquaredError


def test_cross_entropy_is_minus_the_log_of_the_right_class_probability() -> None:
    outputs = torch.tensor([[math.log(1), math.log(2), math.log(5)]] * 2)  # probabilities 1/8, 2/8, 5/8
    losses = CrossEntropy()(outputs, torch.tensor([0, 2]))
    assert losses.tolist() == pytest.approx([math.log(8), math.log(8 / 5)], abs=1e-6)
    assert CrossEntropy().predict(outputs)[0].tolist() == pytest.approx([0.125, 0.25, 0.625])
    assert CrossEntropy().outputs(5) == 5


def test_binary_cross_entropy_by_hand() -> None:
    outputs = torch.tensor([[math.log(3)], [math.log(3)]])  # σ = 3/4
    losses = BinaryCrossEntropy()(outputs, torch.tensor([1, 0]))
    assert losses.tolist() == pytest.approx([math.log(4 / 3), math.log(4)], abs=1e-6)
    assert BinaryCrossEntropy().predict(outputs)[0].tolist() == pytest.approx([0.25, 0.75])
    assert BinaryCrossEntropy().outputs(2) == 1


def test_binary_cross_entropy_equals_cross_entropy_with_outputs_zero_and_x() -> None:
    x = torch.randn(20, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(20) % 2
    two = torch.cat([torch.zeros_like(x), x], dim=1)
    assert torch.allclose(BinaryCrossEntropy()(x, labels), CrossEntropy()(two, labels), atol=1e-12)


def test_mse_by_hand() -> None:
    losses = MeanSquaredError()(torch.tensor([[1.0], [4.5]]), torch.tensor([3.0, 5.0], dtype=torch.float64))
    assert losses.tolist() == [4.0, 0.25]
    assert MeanSquaredError().predict(torch.tensor([[2.5]])).tolist() == [2.5]
