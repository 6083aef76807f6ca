"""Whether a row is as good as another, within a margin that was named before training (non-inferiority).

d = ours − theirs, turned so that above 0 is better, with its variances a (seeds) and b (dev examples) as statistics.py
has them, and a margin m > 0:

    L = d − √(t²·a + z²·b)      the lower end of the one-sided 95 % interval: t(S − 1; 0.95), and z = 1.645
    U = d + √(t²·a + z²·b)      the upper end of the other one
    L > −m  not worse           U < −m  worse, by more than the margin           else  not shown

"Not worse" is wrong where the true δ ≤ −m < L. That L lies above δ at most 5 times of 100, whatever a and b are: the
mean of normal d_s does not depend on their variance, so given a it lies above δ as often and as far as below, and

    P(L > δ) = P(d − δ > √(t²·a + z²·b)) = ½·P(|d − δ| > √(t²·a + z²·b)) ≤ ½·0.10

where the last step is that of the two-sided interval at 90 %, which has the same t and z (Banerjee 1961; its proof is
in statistics.py).

p is the level at which L would be −m. Several rows against one reference are corrected by Holm's method, "not worse"
and "worse" each for itself: each is said wrongly of any row at most 5 times of 100. The smallest margin that d shows is
−L. How many seeds or examples a margin needs is counted for rows that are equal, at the variances that were seen:
L > −m four times of five. k times as many dev examples have b/k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from scipy import optimize

from manyheads.studies.statistics import LEVEL, POWER, Difference, holm, median_difference

MOST_SEEDS = 100  # beyond them nothing is counted: it would be the bootstrap's noise
MOST_TIMES = 100.0  # as many dev examples
ONE_SIDED = 2 * LEVEL  # the level of the two-sided test that has the same quantiles

MarginVerdict = Literal["not worse", "not shown", "worse"]


@dataclass(frozen=True)
class Judged:
    """What may be said of a row and a margin."""

    verdict: MarginVerdict
    corrected: float  # the p-value of "not worse" among all rows (Holm)


@dataclass(frozen=True)
class Needed:
    """What would show a margin four times of five, were the rows equal; each None where no such number would."""

    seeds: int | None  # with the dev examples there are
    times: float | None  # as many dev examples, with the seeds there are
    both: tuple[int, float] | None = None  # seeds, and times as many examples, where neither alone would do

    @property
    def is_there(self) -> bool:
        """Whether the study has what the margin needs."""
        return self.times == 1


def p_not_worse(difference: Difference, margin: float) -> float:
    """How likely so high a difference is at most where the row is worse by the margin, or more."""
    above = replace(difference, mean=difference.mean + margin)
    if above.mean > 0:
        return above.p / 2
    return 1 - above.p / 2


def p_worse(difference: Difference, margin: float) -> float:
    """How likely so low a difference is at most where the row is worse by the margin, or less."""
    above = replace(difference, mean=difference.mean + margin)
    if above.mean < 0:
        return above.p / 2
    return 1 - above.p / 2


def judge(differences: Mapping[str, Difference], margin: float) -> dict[str, Judged]:
    """All rows that are held against one reference, together."""
    not_worse = holm([p_not_worse(difference, margin) for difference in differences.values()])
    worse = holm([p_worse(difference, margin) for difference in differences.values()])
    judged: dict[str, Judged] = {}
    for row, corrected, corrected_worse in zip(differences, not_worse, worse, strict=True):
        verdict: MarginVerdict = "not shown"
        if corrected < LEVEL:
            verdict = "not worse"
        elif corrected_worse < LEVEL:
            verdict = "worse"
        judged[row] = Judged(verdict, corrected)
    return judged


def smallest_margin(difference: Difference) -> float:
    """Every margin above it is shown by this difference alone; 0 where the row is shown to be better."""
    return max(0.0, -difference.lower_end())


def provable_margin(differences: list[Difference], looks: int) -> float | None:
    """The smallest margin that would be shown four times of five, were rows equal, at their median variances."""
    varying = [difference for difference in differences if difference.error]
    if not varying:
        return None
    return median_difference(varying).detectable(looks, level=ONE_SIDED)


def needed_for(difference: Difference, margin: float, looks: int) -> Needed:
    """Seeds and dev examples that the margin takes; of one seed nothing is known."""
    if difference.seeds == 1:
        return Needed(None, None)
    seeds = difference.seeds_for(margin, looks, MOST_SEEDS, ONE_SIDED)
    times = _times_as_many(difference, margin, looks, difference.seeds)
    if seeds is not None or times is not None:
        return Needed(seeds, times)
    for count in range(difference.seeds + 1, MOST_SEEDS + 1):
        times = _times_as_many(difference, margin, looks, count)
        if times is not None:
            return Needed(None, None, (count, times))
    return Needed(None, None)


def _times_as_many(difference: Difference, margin: float, looks: int, seeds: int) -> float | None:
    """How many times the dev examples would show the margin with so many seeds: k of b/k."""

    def lacking(log_times: float) -> float:
        larger = replace(difference, example_variance=difference.example_variance / math.exp(log_times))
        return larger.chance(margin, looks, seeds, ONE_SIDED) - POWER

    if lacking(0.0) >= 0:
        return 1.0
    if lacking(math.log(MOST_TIMES)) < 0:
        return None
    return math.exp(optimize.brentq(lacking, 0.0, math.log(MOST_TIMES)))
