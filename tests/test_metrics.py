"""Metrics by hand, and the papers' overall."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads.metrics import overall, score


def one_hot(classes: list[int], count: int) -> np.ndarray:
    return np.eye(count)[classes]


def test_binary_accuracy_and_f1() -> None:
    labels = np.array([1, 1, 1, 0, 0, 0])
    found = score("classification", one_hot([1, 1, 0, 1, 0, 0], 2), labels)
    assert found["accuracy"] == pytest.approx(4 / 6)
    assert found["f1"] == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))  # 2 true, 1 false positive, 1 false negative


def test_f1_of_many_classes_is_the_mean_over_classes() -> None:
    found = score("classification", one_hot([0, 0, 2], 3), np.array([0, 1, 2]))
    assert found["f1"] == pytest.approx((2 / 3 + 0 + 1) / 3)


def test_correlations() -> None:
    values, labels = np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.0, 2.0])
    found = score("regression", values, labels)
    assert found["pearson"] == pytest.approx(3 / np.sqrt(14 / 3 * 2))  # Σdxdy / √(Σdx²·Σdy²)
    assert found["spearman"] == pytest.approx(1.0)


def test_correlation_with_a_constant_is_undefined_not_a_crash() -> None:
    assert score("regression", np.ones(4), np.arange(4.0)) == {"pearson": None, "spearman": None}
    assert score("regression", np.ones(1), np.ones(1)) == {"pearson": None, "spearman": None}


def test_overall_is_the_papers_formula() -> None:
    """Paper A's final test row: (.534 + .889 + (1 + .851)/2) / 3 = .783."""
    scores = {"sst": {"accuracy": 0.534}, "qqp": {"accuracy": 0.889}, "sts": {"pearson": 0.851}}
    kinds = {"sst": "classification", "qqp": "classification", "sts": "regression"}
    assert overall(scores, kinds) == pytest.approx(0.783, abs=5e-4)
    assert overall({"sts": {"pearson": None}}, {"sts": "regression"}) == 0.5
