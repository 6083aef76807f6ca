"""As good within a margin: the bound by hand and against scipy, its level, Holm's order, what a margin needs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, stats

from manyheads.studies.noninferiority import (
    Needed,
    judge,
    needed_for,
    p_not_worse,
    p_worse,
    provable_margin,
    smallest_margin,
)
from manyheads.studies.statistics import Difference

EQUAL = Difference(mean=0.0, seeds=3, seed_variance=4e-6, example_variance=1e-6)


def at_level(p: float, margin: float) -> Difference:
    """A difference whose p-value of "not worse" is p: one of dev examples alone, σ = .01."""
    return Difference(mean=0.01 * stats.norm.isf(p) - margin, seeds=3, seed_variance=0.0, example_variance=1e-4)


def test_the_bound_by_hand() -> None:
    """d = −.004, −.002, 0: mean −.002, variance 4e-6; the draws' 1e-6. t of 2 degrees of freedom and z at .95."""
    seen = replace(EQUAL, mean=-0.002)
    half = math.sqrt(2.919986**2 * 4e-6 / 3 + 1.644854**2 * 1e-6)  # .003751
    assert seen.lower_end() == pytest.approx(-0.002 - half, rel=1e-6)
    assert seen.upper_end() == pytest.approx(-0.002 + half, rel=1e-6)
    assert smallest_margin(seen) == pytest.approx(0.002 + half, rel=1e-6)
    assert smallest_margin(replace(seen, mean=0.01)) == 0.0
    assert half < seen.half_width, "the two-sided interval reaches farther"


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("mean", [-0.03, -0.012, 0.004])
def test_p_is_the_level_at_which_the_bound_is_the_margin(seeds: int, mean: float) -> None:
    """Solved here for the quantile's chance, in float64; the margin is .01."""
    a, b = 2e-5, 3e-5
    seen = Difference(mean, seeds, seed_variance=a * seeds, example_variance=b)

    def bound_above_margin(p: float) -> float:
        return mean - math.sqrt(stats.t.isf(p, seeds - 1) ** 2 * a + stats.norm.isf(p) ** 2 * b) + 0.01

    if mean > -0.01:
        expected = optimize.brentq(bound_above_margin, 1e-12, 0.5)
        assert p_not_worse(seen, 0.01) == pytest.approx(expected, rel=1e-6)
        assert p_worse(seen, 0.01) == pytest.approx(1 - expected, rel=1e-6)
    else:
        assert p_not_worse(seen, 0.01) > 0.5
        mirrored = replace(seen, mean=-0.02 - mean)  # as far on the other side of the margin
        assert p_worse(seen, 0.01) == pytest.approx(p_not_worse(mirrored, 0.01))


def test_where_seeds_are_all_it_is_the_one_sided_t_test() -> None:
    by_seed = np.array([-0.004, 0.003, 0.001, -0.006])
    seen = Difference(float(by_seed.mean()), 4, float(by_seed.var(ddof=1)), example_variance=0.0)
    test = stats.ttest_1samp(by_seed, -0.01, alternative="greater")
    assert p_not_worse(seen, 0.01) == pytest.approx(test.pvalue)
    assert seen.lower_end() == pytest.approx(test.confidence_interval(0.95).low)


@pytest.mark.numeric
@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("by_seed", [0.1, 1.0, 10.0])  # a; b is 1
def test_the_bound_lies_above_the_truth_at_most_five_times_of_a_hundred(seeds: int, by_seed: float) -> None:
    draw = np.random.default_rng(23)
    studies = 200_000
    means = draw.normal(0, math.sqrt(by_seed + 1), studies)
    seen_a = by_seed * draw.chisquare(seeds - 1, studies) / (seeds - 1)
    half = np.sqrt(stats.t.isf(0.05, seeds - 1) ** 2 * seen_a + stats.norm.isf(0.05) ** 2)
    above = float(np.mean(means - half > 0))
    assert above <= 0.05 + 4 * math.sqrt(0.05 / studies)
    assert above > 0.02, "a bound that is always below shows nothing"
    for index in range(20):  # and it is the bound that Difference has
        seen = Difference(float(means[index]), seeds, float(seen_a[index]) * seeds, 1.0)
        assert seen.lower_end() == pytest.approx(means[index] - half[index])


def test_three_verdicts() -> None:
    rows = {"as good": EQUAL, "open": replace(EQUAL, mean=-0.009), "bad": replace(EQUAL, mean=-0.03)}
    judged = judge(rows, 0.01)
    assert {row: cell.verdict for row, cell in judged.items()} == {
        "as good": "not worse",
        "open": "not shown",
        "bad": "worse",
    }
    certain = Difference(0.0, 3, 0.0, 0.0)
    assert judge({"same": certain}, 0.01)["same"].verdict == "not worse", "nothing varies and nothing differs"
    assert judge({}, 0.01) == {}


def test_rows_are_corrected_in_the_order_of_their_p_values() -> None:
    """Holm: .03·1, .02·2 and .01·3 of three; the largest so far counts."""
    rows = {"third": at_level(0.03, 0.01), "first": at_level(0.01, 0.01), "second": at_level(0.02, 0.01)}
    judged = judge(rows, 0.01)
    assert judged["first"].corrected == pytest.approx(0.03)
    assert judged["second"].corrected == pytest.approx(0.04)
    assert judged["third"].corrected == pytest.approx(0.04)
    assert {cell.verdict for cell in judged.values()} == {"not worse"}
    judged = judge({**rows, "fourth": at_level(0.4, 0.01)}, 0.01)
    assert [judged[row].corrected for row in ("first", "second", "third")] == pytest.approx([0.04, 0.06, 0.06])
    assert judged["first"].verdict == "not worse"
    assert judged["second"].verdict == judged["third"].verdict == "not shown"


def test_how_many_seeds_a_margin_needs() -> None:
    """Of seeds alone: the noncentral t has the power, four times of five from that count on and not before."""
    seen = Difference(mean=-0.02, seeds=3, seed_variance=4e-4, example_variance=0.0)
    needed = needed_for(seen, 0.01, looks=2)
    assert needed.seeds is not None
    assert needed.times is None, "no dev set makes seeds vary less"

    def power(seeds: int) -> float:
        return float(stats.nct.sf(stats.t.isf(0.05 / 2, seeds - 1), seeds - 1, 0.01 / math.sqrt(4e-4 / seeds)))

    assert power(needed.seeds) >= 0.8 > power(needed.seeds - 1)


def test_how_many_examples_a_margin_needs() -> None:
    """Of examples alone, in closed form: k = ((z.95 + z.8)·σ/m)²."""
    seen = Difference(mean=-0.02, seeds=3, seed_variance=0.0, example_variance=1e-4)
    needed = needed_for(seen, 0.01, looks=1)
    assert needed.times == pytest.approx((stats.norm.isf(0.05) + stats.norm.ppf(0.8)) ** 2, rel=1e-4)
    assert needed.seeds is None, "no number of seeds makes a dev set larger"
    assert needed_for(seen, 0.03, looks=1).is_there
    assert needed_for(replace(seen, seeds=1), 0.01, looks=1) == Needed(None, None)


def test_where_neither_is_enough_alone_both_are_counted() -> None:
    seen = Difference(mean=0.0, seeds=2, seed_variance=2e-4, example_variance=1e-4)
    needed = needed_for(seen, 0.01, looks=1)
    assert (needed.seeds, needed.times) == (None, None)
    assert needed.both is not None
    seeds, times = needed.both
    larger = replace(seen, example_variance=1e-4 / times)
    assert larger.chance(0.01, seeds=seeds, level=0.1) == pytest.approx(0.8, abs=1e-3)
    fewer = replace(seen, example_variance=1e-6)  # a hundred times the examples
    assert fewer.chance(0.01, seeds=seeds - 1, level=0.1) < 0.8
    hopeless = needed_for(Difference(0.0, 3, 0.2, 1e-4), 0.01, looks=1)
    assert hopeless == Needed(None, None)


def test_the_margin_that_equal_rows_would_show() -> None:
    seen = [Difference(0.0, 3, 0.0, variance) for variance in (1e-4, 4e-4, 9e-4)]
    expected = 0.02 * (stats.norm.isf(0.05 / 3) + stats.norm.ppf(0.8))
    assert provable_margin(seen, looks=3) == pytest.approx(expected, rel=1e-4)
    assert provable_margin([Difference(0.0, 3, 0.0, 0.0)], looks=1) is None
