"""Differences: by hand, against scipy, and over hundreds of synthetic studies whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from building import MULTI, NUMBERS, ORDINAL, TWO, a_task
from manyheads.inference import bootstrap
from manyheads.inference.bootstrap import DRAWS, draw_counts, drawn_metric
from manyheads.parts.metrics import score
from manyheads.studies.statistics import Difference, difference, holm, median_difference, verdicts


def test_a_difference_by_hand() -> None:
    """Three seeds: d = .01, .03, .05; variance .0004; the draws' variance .0001."""
    drawn = np.array([-0.01, 0.01] * 50) * math.sqrt(99 / 100)  # whose variance is exactly .0001
    ours = np.stack([drawn] * 3)
    found = difference([0.51, 0.53, 0.55], [0.5, 0.5, 0.5], ours, np.zeros_like(ours))
    assert found.mean == pytest.approx(0.03)
    assert found.seed_variance == pytest.approx(0.0004)
    assert found.example_variance == pytest.approx(0.0001)
    to_float32 = math.sqrt(4.302653**2 * 0.0004 / 3 + 1.959964**2 * 0.0001)  # t of 2 degrees of freedom, and z, at .975
    assert found.half_width == pytest.approx(to_float32, rel=1e-6)
    t, z = stats.t.ppf(1 - found.p / 2, 2), stats.norm.ppf(1 - found.p / 2)
    assert math.sqrt(t**2 * 0.0004 / 3 + z**2 * 0.0001) == pytest.approx(0.03), "at level p the interval ends at 0"


def test_where_one_part_is_all_p_is_that_of_the_t_test_or_the_normal_test() -> None:
    seeds_alone = Difference(mean=-0.03, seeds=4, seed_variance=4e-4, example_variance=0.0)
    assert seeds_alone.p == pytest.approx(2 * stats.t.sf(0.03 / 0.01, 3))
    examples_alone = Difference(mean=0.03, seeds=4, seed_variance=0.0, example_variance=1e-4)
    assert examples_alone.p == pytest.approx(2 * stats.norm.sf(3))
    certain = Difference(mean=0.5, seeds=4, seed_variance=0.0, example_variance=1e-8)
    assert certain.p == 0.0


def test_one_seed_has_the_variance_of_examples_alone() -> None:
    drawn = np.array([[-0.01, 0.01] * 50]) * math.sqrt(99 / 100)
    found = difference([0.53], [0.5], drawn, np.zeros_like(drawn))
    assert found.half_width == pytest.approx(1.959964 * 0.01, rel=1e-6)
    assert found.seeds_for(0.001, looks=1, limit=100) is None, "one seed does not tell how seeds vary"


def test_equal_predictions_are_not_distinguishable() -> None:
    same = np.random.default_rng(0).normal(size=(3, 50))
    found = difference([0.5, 0.6, 0.7], [0.5, 0.6, 0.7], same, same)
    assert (found.mean, found.error, found.p) == (0.0, 0.0, 1.0)
    assert verdicts([found], [True]) == ["not distinguishable"]


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.6]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_better_depends_on_which_way_is_up() -> None:
    sure = Difference(mean=0.1, seeds=3, seed_variance=1e-8, example_variance=1e-8)
    assert verdicts([sure, sure], [True, False]) == ["better", "worse"]


@pytest.mark.slow
def test_what_can_be_seen_and_what_it_takes() -> None:
    one = Difference(mean=0.0, seeds=3, seed_variance=4e-4, example_variance=0.0)
    assert stats.nct.sf(4.302653, 2, one.detectable() / one.error) == pytest.approx(0.8, abs=1e-4), "the noncentral t"
    assert one.detectable(looks=10) > one.detectable()
    count = one.seeds_for(0.01, looks=1, limit=100)
    assert count is not None
    assert one.detectable(seeds=count) <= 0.01 < one.detectable(seeds=count - 1)
    small_dev = Difference(mean=0.0, seeds=3, seed_variance=4e-4, example_variance=1e-4)  # z·.01 > .01
    assert small_dev.seeds_for(0.01, looks=1, limit=1000) is None, "no number of seeds makes a dev set larger"


def test_rows_that_vary_differently_have_a_middle() -> None:
    calm, wild = (Difference(0.2, 3, variance, 1e-4, share) for variance, share in ((2e-4, 0.5), (6e-4, 1.0)))
    assert median_difference([calm, wild]) == Difference(0.0, 3, pytest.approx(4e-4), pytest.approx(1e-4), 0.75)
    assert median_difference([calm, wild, wild]).seed_variance == 6e-4


def test_more_seeds_also_lessen_what_examples_do_to_one_seed_alone() -> None:
    """Seeds whose draws vary together by .0003 and each for itself by .0009: with S seeds .0003 + .0009/S."""
    draw = np.random.default_rng(3)
    common, own = draw.normal(0, math.sqrt(3e-4), 200_000), draw.normal(0, math.sqrt(9e-4), (3, 200_000))
    found = difference([0.5] * 3, [0.5] * 3, common + own, np.zeros((3, 200_000)))
    assert found.example_variance == pytest.approx(6e-4, rel=0.02)
    assert found.lasting == pytest.approx(0.5, abs=0.01)
    assert found.error == pytest.approx(math.sqrt(found.example_variance))
    assert found.parts(9) == (0.0, pytest.approx(3e-4 + 9e-4 / 9, rel=0.02))
    assert difference([0.5], [0.5], common[None], np.zeros((1, 200_000))).lasting == 1.0


@pytest.mark.parametrize("by_seed", [0.5, 4.0, 0.0])  # a; b is 1
@pytest.mark.parametrize(("seeds", "looks"), [(2, 1), (3, 1), (3, 12), (5, 4)])
def test_the_detectable_difference_is_found_four_times_of_five(seeds: int, looks: int, by_seed: float) -> None:
    """By simulation of the formula itself: normal differences, whose seeds' variance is estimated from these seeds."""
    size = Difference(0.0, seeds, seed_variance=by_seed * seeds, example_variance=1.0).detectable(looks)
    draw = np.random.default_rng(5)
    runs = size + draw.normal(0, 1, (100_000, 1)) + draw.normal(0, math.sqrt(by_seed * seeds), (100_000, seeds))
    a, t = runs.var(axis=1, ddof=1) / seeds, stats.t.ppf(1 - 0.025 / looks, seeds - 1)
    found = runs.mean(axis=1) > np.sqrt(t**2 * a + stats.norm.ppf(1 - 0.025 / looks) ** 2)
    assert found.mean() == pytest.approx(0.8, abs=0.006)


def test_with_one_seed_the_detectable_difference_is_that_of_the_normal_test() -> None:
    one = Difference(0.0, 1, seed_variance=0.0, example_variance=4.0)
    assert one.detectable(looks=4) == pytest.approx(2 * (stats.norm.ppf(1 - 0.025 / 4) + stats.norm.ppf(0.8)))


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("by_seed", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("level", [0.05, 0.05 / 12])
def test_the_interval_keeps_its_level_whatever_the_share_of_seeds(seeds: int, by_seed: float, level: float) -> None:
    """400,000 differences of nothing; p below the level in no more than that share of them (and four errors' slack)."""
    draw = np.random.default_rng(17)
    total = 400_000
    means = draw.normal(0, math.sqrt(by_seed + 1), total)
    a = by_seed * draw.chisquare(seeds - 1, total) / (seeds - 1)
    t, z = stats.t.ppf(1 - level / 2, seeds - 1), stats.norm.ppf(1 - level / 2)
    wrong = np.mean(np.abs(means) > np.sqrt(t**2 * a + z**2))
    assert wrong <= level + 4 * math.sqrt(level / total)
    assert wrong > level / 50, "an interval that never errs finds nothing"
    some = np.random.default_rng(1).choice(total, 50, replace=False)
    for index in some:  # and it is the interval that Difference has
        one = Difference(float(means[index]), seeds, float(a[index]) * seeds, 1.0)
        assert (one.p < level) == (abs(means[index]) > math.sqrt(t**2 * a[index] + z**2))


# --- the bootstrap -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_drawn_metrics_are_the_metrics_of_what_was_drawn() -> None:
    draw = np.random.default_rng(1)
    classes, numbers = a_task(labels=ORDINAL), a_task(labels=NUMBERS)
    chances, labels = draw.dirichlet([1, 1, 1], 30), draw.integers(0, 3, 30)
    values, wanted = draw.normal(size=30), draw.normal(size=30)
    sets, true_sets = draw.uniform(size=(30, 3)), draw.integers(0, 2, (30, 3))
    true_sets[:, 2] = sets[:, 2] = 0  # a class that is nowhere
    counts = draw_counts("some dev", 30)
    assert counts.shape == (DRAWS, 30)
    assert (counts.sum(axis=1) == 30).all()
    for task, metric, given, truth in (
        (classes, "accuracy", chances, labels),
        (numbers, "pearson", values, wanted),
        (classes, "macro-f1", chances, labels),
        (a_task(labels=MULTI), "macro-f1", sets, true_sets),
        (a_task(labels=MULTI), "micro-f1", sets, true_sets),
        (classes, "kappa", chances, labels),
    ):
        found = drawn_metric(task, metric, given, truth, "some dev")
        for number in (0, 7, 31):
            rows = np.repeat(np.arange(30), counts[number].astype(int))
            assert found[number] == pytest.approx(score(task, given[rows], truth[rows])[metric], abs=1e-6)
    assert np.array_equal(draw_counts("some dev", 30), counts)
    assert not np.array_equal(draw_counts("another dev", 30), counts)


@pytest.mark.slow
def test_undefined_draws_are_left_out() -> None:
    task = a_task(labels=TWO)
    predictions = np.array([[0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])
    found = drawn_metric(task, "auc", predictions, np.array([1, 0, 0]), "tiny")
    assert np.isnan(found).any(), "some draws hold one class alone"
    assert np.isfinite(found).any()


# --- what the intervals promise ------------------------------------------------------------------------------------


def synthetic_study(
    draw: np.random.Generator, truth: float, seeds: int, rows: int, seed_spread: float, looks: int
) -> list[Difference]:
    """Variants against one reference on common examples of differing difficulty, each run a little off by its seed."""
    difficulty = draw.uniform(0.35, 0.65, rows)
    counts = bootstrap._draw(draw, 200, rows)

    def runs(shift: float) -> np.ndarray:
        """[seeds, rows] which answers are right."""
        off = draw.normal(0, seed_spread, (seeds, 1))
        return draw.random((seeds, rows)) < difficulty + shift + off

    reference = runs(0.0)
    found = []
    for _ in range(looks):
        ours = runs(truth)
        drawn = [(right.astype(np.float32) @ counts.T).astype(np.float64) / rows for right in (ours, reference)]
        found.append(difference(ours.mean(axis=1), reference.mean(axis=1), *drawn))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "spread"), [(3, 0.0), (3, 0.03), (6, 0.03), (1, 0.0)], ids=["3", "3-noisy", "6-noisy", "one"]
)
def test_intervals_cover_the_truth_as_often_as_promised(seeds: int, spread: float) -> None:
    """500 studies with a true difference of .04: the 95 % interval holds it in at least 93 % of them."""
    draw = np.random.default_rng(7)
    inside = 0
    for _ in range(500):
        (found,) = synthetic_study(draw, 0.04, seeds, 300, spread, 1)
        inside += abs(found.mean - 0.04) <= found.half_width
    assert inside >= 465, inside
    if seeds in (1, 6):  # of three seeds intervals are wide: what a seed does to single examples counts in a and in b
        assert inside < 500, "an interval that always holds the truth promises nothing"


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "spread"), [(3, 0.03), (5, 0.02), (1, 0.0)])
def test_nothing_is_called_better_where_nothing_is(seeds: int, spread: float) -> None:
    """200 tables of four equal variants: a false 'better' or 'worse' in at most 5 % of the tables (and some slack)."""
    draw = np.random.default_rng(11)
    wrong = 0
    for _ in range(200):
        table = synthetic_study(draw, 0.0, seeds, 300, spread, 4)
        wrong += any(told != "not distinguishable" for told in verdicts(table, [True] * 4))
    assert wrong <= 16, wrong


@pytest.mark.slow
def test_a_real_difference_is_found_with_enough_seeds() -> None:
    """The power that `detectable` promises, four times of five, on predictions: here from 60 % on in 200 studies."""
    draw = np.random.default_rng(13)
    (sample,) = synthetic_study(draw, 0.0, 8, 2000, 0.01, 1)
    size = sample.detectable()
    found = [verdicts(synthetic_study(draw, size, 8, 2000, 0.01, 1), [True])[0] for _ in range(200)]
    assert found.count("better") >= 120
    assert found.count("worse") == 0


@pytest.mark.slow
def test_without_the_seeds_variance_equal_variants_would_be_told_apart() -> None:
    """The synthetic studies are hard enough to catch a wrong formula."""
    draw = np.random.default_rng(11)
    wrong = 0
    for _ in range(200):
        for one in synthetic_study(draw, 0.0, 3, 300, 0.06, 1):
            wrong += Difference(one.mean, 1, 0.0, one.example_variance).p < 0.05
    assert wrong > 30
    assert bootstrap.SLOW_DRAWS < DRAWS
