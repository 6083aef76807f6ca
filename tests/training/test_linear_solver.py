"""Solved linear maps against closed forms and scikit-learn; the loss of the best constant against entropies."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import functional as F

from manyheads.training.linear_solver import best_constant_loss, solve

pytestmark = pytest.mark.numeric


def squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs[:, 0] - labels) ** 2


def cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(outputs, labels, reduction="none")


def binary_cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(outputs, labels.to(outputs.dtype), reduction="none").mean(dim=-1)


@pytest.fixture
def features() -> Tensor:
    rng = np.random.default_rng(0)
    spread = np.array([1.0, 3.0, 0.5, 2.0])
    return torch.from_numpy(rng.normal(size=(400, 4)) * spread + np.array([5.0, 0.0, -2.0, 1.0]))


def standardised(features: Tensor) -> Tensor:
    return (features - features.mean(dim=0)) / features.std(dim=0, correction=0)


def test_squared_errors_are_ridge_regression(features: Tensor) -> None:
    """W = (ZᵀZ/n + λ/2·I)⁻¹·Zᵀ(y − ȳ)/n of standardised features Z, b = ȳ."""
    rng = np.random.default_rng(1)
    labels = features @ torch.tensor([0.3, -1.0, 2.0, 0.0], dtype=torch.float64) + torch.from_numpy(
        rng.normal(size=400)
    )
    solution = solve(features, labels, squared_error, outputs=1)
    z = standardised(features)
    gram = z.T @ z / 400 + solution.strength / 2 * torch.eye(4, dtype=torch.float64)
    weight = torch.linalg.solve(gram, z.T @ (labels - labels.mean()) / 400)
    expected = z @ weight + labels.mean()
    found = (features @ solution.weight.T + solution.bias)[:, 0]
    assert (found - expected).abs().max() < 2e-3, "L-BFGS stops where a step gains next to nothing"


def test_cross_entropy_is_multinomial_logistic_regression(features: Tensor) -> None:
    rng = np.random.default_rng(2)
    logits = features @ torch.from_numpy(rng.normal(size=(4, 3)))
    labels = (logits + torch.from_numpy(rng.gumbel(size=(400, 3)) * 2)).argmax(dim=1)
    solution = solve(features, labels, cross_entropy, outputs=3)
    z = standardised(features).numpy()
    reference = LogisticRegression(C=1 / (400 * solution.strength), tol=1e-10, max_iter=10_000).fit(z, labels.numpy())
    found = (features @ solution.weight.T + solution.bias).softmax(dim=-1)
    assert np.abs(found.numpy() - reference.predict_proba(z)).max() < 2e-3


def test_noise_asks_for_a_strong_penalty_and_signal_for_a_weak_one(features: Tensor) -> None:
    rng = np.random.default_rng(3)
    noise = torch.from_numpy(rng.normal(size=400))
    wide = torch.from_numpy(rng.normal(size=(400, 200)))
    assert solve(wide, noise, squared_error, outputs=1).strength >= 0.1
    assert solve(features, features[:, 1].clone(), squared_error, outputs=1).strength <= 1e-5


def test_a_feature_that_hardly_varies_gets_no_huge_weight(features: Tensor) -> None:
    """Encoders have such dimensions: blown up to the size of the others they would make the head's outputs unstable."""
    rng = np.random.default_rng(4)
    still = 1e-7 * torch.from_numpy(rng.normal(size=(400, 1)))
    labels = features[:, 0] + torch.from_numpy(rng.normal(size=400))
    solution = solve(torch.cat([features, still], dim=1), labels, squared_error, outputs=1)
    assert solution.weight.abs().max() < 10


def test_too_few_examples_are_no_fault() -> None:
    solution = solve(torch.randn(1, 3), torch.tensor([2.0]), squared_error, outputs=1)
    assert torch.isfinite(solution.weight).all()
    assert solution.bias.item() == pytest.approx(2.0, abs=0.1)


def test_the_best_constant_by_hand() -> None:
    labels = torch.tensor([0] * 6 + [1] * 3 + [2] * 1)
    entropy = -(0.6 * np.log(0.6) + 0.3 * np.log(0.3) + 0.1 * np.log(0.1))
    assert best_constant_loss(labels, cross_entropy, 3) == pytest.approx(entropy, abs=1e-5)
    numbers = torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64)
    assert best_constant_loss(numbers, squared_error, 1) == pytest.approx(14 / 3, abs=1e-6)  # the variance
    sets = torch.tensor([[1, 0], [1, 1], [1, 0], [0, 0]])
    halves = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))  # of both classes: three of four, one of four
    assert best_constant_loss(sets, binary_cross_entropy, 2) == pytest.approx(halves, abs=1e-5)
