"""Each loss against numbers worked out by hand or in float64 from its formula."""

from __future__ import annotations

import math

import pytest
import torch

from manyheads.losses import BinaryCrossEntropy, CrossEntropy, DualCrossEntropy, MeanSquaredError, OrdinalLogLoss


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


def test_ordinal_log_loss_by_hand() -> None:
    outputs = torch.tensor([[math.log(1), math.log(2), math.log(5)]], dtype=torch.float64)  # 1/8, 2/8, 5/8
    value = OrdinalLogLoss(alpha=2)(outputs, torch.tensor([0])).item()
    assert value == pytest.approx(-math.log(1 - 2 / 8) * 1 - math.log(1 - 5 / 8) * 4)
    plain = OrdinalLogLoss()(outputs, torch.tensor([2])).item()
    assert plain == pytest.approx(-math.log(1 - 1 / 8) * 2**1.5 - math.log(1 - 2 / 8))


def test_ordinal_log_loss_of_two_classes_is_cross_entropy() -> None:
    outputs = torch.randn(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(20) % 2
    assert torch.allclose(OrdinalLogLoss()(outputs, labels), CrossEntropy()(outputs, labels), atol=1e-12)


def test_ordinal_log_loss_stays_finite_where_a_wrong_class_is_certain() -> None:
    outputs = torch.tensor([[200.0, 0.0, 0.0]], requires_grad=True)
    value = OrdinalLogLoss()(outputs, torch.tensor([2]))
    assert value.item() == pytest.approx(200 * 2**1.5, rel=0.01)  # log(1 − p₀) ≈ −200, where 1 − p₀ rounds to 0
    value.backward()
    assert outputs.grad is not None
    assert torch.isfinite(outputs.grad).all()


def test_dual_cross_entropy_by_hand() -> None:
    outputs = torch.tensor([[math.log(3), 0.0, -math.log(3)]])  # σ = 3/4, 1/2, 1/4
    value = DualCrossEntropy()(outputs, torch.tensor([0])).item()
    assert value == pytest.approx(math.log(4 / 3) + math.log(2) + math.log(4 / 3), abs=1e-6)
    assert DualCrossEntropy().predict(outputs)[0].tolist() == pytest.approx([0.5, 1 / 3, 1 / 6])
