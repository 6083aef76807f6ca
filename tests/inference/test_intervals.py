"""Intervals of metrics: against the exact distribution of bootstrap draws, and scipy's bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from building import CLASSES, MULTI, NUMBERS, TWO, a_task
from manyheads.config.part import PartConfig
from manyheads.inference import bootstrap
from manyheads.inference.bootstrap import drawn_metrics
from manyheads.inference.intervals import metric_intervals, wilson_interval
from manyheads.parts.metrics import score


def test_an_accuracys_interval_is_that_of_the_binomial_distribution() -> None:
    """The number of right answers among n draws with replacement, p of them right, is Binomial(n, p), exactly."""
    task = a_task(labels=TWO, metrics=(PartConfig(name="accuracy"),))
    labels = np.zeros(400, dtype=np.int64)
    predictions = np.eye(2)[(np.arange(400) % 10 < 3).astype(int)]  # 280 of 400 are right
    metrics = score(task, predictions, labels)
    interval = metric_intervals(task, metrics, predictions, labels)["accuracy"]
    assert metrics["accuracy"] == pytest.approx(0.7)
    assert interval == pytest.approx(stats.binom.ppf([0.025, 0.975], 400, 0.7) / 400, abs=0.005)


@pytest.mark.slow
def test_intervals_are_those_of_scipys_percentile_bootstrap() -> None:
    rng = np.random.default_rng(0)
    task = a_task(labels=NUMBERS, metrics=(PartConfig(name="pearson"), PartConfig(name="mae")))
    labels = rng.normal(size=150)
    predictions = labels + rng.normal(size=150)
    metrics = score(task, predictions, labels)
    intervals = metric_intervals(task, metrics, predictions, labels)
    references = {
        "pearson": lambda p, y: stats.pearsonr(p, y).statistic,
        "mae": lambda p, y: np.abs(p - y).mean(),
    }
    for metric, function in references.items():
        reference = stats.bootstrap(
            (predictions, labels),
            function,
            paired=True,
            vectorized=False,
            n_resamples=2000,
            method="percentile",
            rng=np.random.default_rng(1),
        ).confidence_interval
        width = reference.high - reference.low
        assert intervals[metric] == pytest.approx((reference.low, reference.high), abs=0.12 * width)


@pytest.mark.slow
def test_metrics_drawn_together_are_those_drawn_alone() -> None:
    rng = np.random.default_rng(2)
    metrics = (PartConfig(name="accuracy"), PartConfig(name="f1-per-class"), PartConfig(name="macro-f1"))
    task = a_task(labels=CLASSES, metrics=metrics)
    predictions, labels = rng.dirichlet([1, 1, 1], 25), rng.integers(0, 3, 25)
    keys = list(score(task, predictions, labels))
    assert keys == ["accuracy", "f1-per-class/a", "f1-per-class/b", "f1-per-class/c", "macro-f1"]
    together = drawn_metrics(task, keys, predictions, labels, "dev")
    assert list(together) == ["accuracy", *keys[1:]]
    for key in ("accuracy", "f1-per-class/b"):
        assert np.array_equal(together[key], bootstrap.drawn_metric(task, key, predictions, labels, "dev"))


@pytest.mark.slow
def test_draws_of_a_large_file_are_the_same_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    classes, numbers, several = a_task(labels=TWO), a_task(labels=NUMBERS), a_task(labels=MULTI)
    chances, labels = rng.dirichlet([1, 1], 40), rng.integers(0, 2, 40)
    values, truth = rng.normal(size=40), rng.normal(size=40)
    sets, sets_truth = rng.random((40, 3)), rng.integers(0, 2, (40, 3))

    def draw() -> list[np.ndarray]:
        return [
            bootstrap.drawn_metric(classes, "accuracy", chances, labels, "dev"),
            bootstrap.drawn_metric(numbers, "pearson", values, truth, "dev"),
            bootstrap.drawn_metric(several, "exact-match", sets, sets_truth, "dev"),
        ]

    at_once = draw()
    monkeypatch.setattr(bootstrap, "LARGEST_TABLE", 40 * 77)  # 77 draws at a time
    for expected, drawn in zip(at_once, draw(), strict=True):
        assert len(drawn) == bootstrap.DRAWS
        assert drawn == pytest.approx(expected, abs=1e-12)


def test_where_there_is_no_interval() -> None:
    task = a_task(labels=TWO, metrics=(PartConfig(name="accuracy"), PartConfig(name="auc")))
    right, one_class = np.eye(2)[[1, 1, 1]], np.array([1, 1, 1])
    metrics = score(task, right, one_class)
    assert metrics == {"accuracy": 1.0, "auc": None}
    intervals = metric_intervals(task, metrics, right, one_class)
    assert intervals == {"accuracy": wilson_interval(1.0, 3), "auc": None}
    assert intervals["accuracy"] == pytest.approx((0.4385, 1.0), abs=1e-3)
    assert metric_intervals(task, {"accuracy": 1.0}, right[:1], one_class[:1]) == {"accuracy": None}
