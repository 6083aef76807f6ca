"""Which differences are real.

Two variants A and B, a metric m, seeds s = 1 … S, the same dev examples for all:

    d_s = m(A, s) − m(B, s)                            paired by seed
    d   = mean of d_s
    V   = a + b,  a = Var(d_s)/S,  b = Var*(d)         seeds, and the choice of dev examples
    d ± √(t²·a + z²·b)                                 95 % interval: t(S − 1; 0.975), and z = 1.96

Var* is the bootstrap's: dev examples are drawn again with replacement, the same ones for A and B and all seeds, and d
is computed anew. Few seeds say little of Var(d_s), hence t; many examples say much of Var*, hence z. That the interval
holds d at least 95 times of 100, whatever a and b are: with G the distribution of z², which is concave, and the shares
λ = a/V and 1 − λ,

    P(z² ≤ λ·t²χ²/(S − 1) + (1 − λ)·z²) = E G(…) ≥ λ·E G(t²χ²/(S − 1)) + (1 − λ)·G(z²) = 0.95        (Banerjee 1961)

One seed says nothing about seeds: then V is Var*(d) alone. With more seeds Var* falls as well, to the mean covariance
of two seeds' d_s over the draws: that much lasts.
p-values of a table are corrected by Holm's method: among m looks the smallest must be below 0.05/m, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from scipy import optimize, special

LEVEL = 0.05  # how often "better" or "worse" may be said of a table in which nothing differs
POWER = 0.8  # how often a difference of the detectable size is found
LEAST_POWER = -100.0  # of ten: smaller p-values are 0

Verdict = Literal["better", "worse", "not distinguishable"]


@dataclass(frozen=True)
class Difference:
    """How much a variant's metric differs from another's, and how sure that is."""

    mean: float
    seeds: int
    seed_variance: float  # of one seed's difference
    example_variance: float  # of the mean difference, over the choice of dev examples
    lasting: float = 1.0  # the share of it that more seeds do not take away

    def parts(self, seeds: int | None = None) -> tuple[float, float]:
        """a and b; or what they would be with another number of seeds."""
        count = seeds or self.seeds
        falling = (1 - self.lasting) * self.example_variance * self.seeds / count
        return self.seed_variance / count, self.lasting * self.example_variance + falling

    @property
    def error(self) -> float:
        """√V."""
        return math.sqrt(sum(self.parts()))

    @property
    def half_width(self) -> float:
        """Of the 95 % interval, of this difference alone."""
        return float(_half(LEVEL, self.seeds, *self.parts()))

    @cached_property
    def p(self) -> float:
        """How likely so large a difference, or a larger one, is at most where there is none: the level at which the
        interval ends at 0."""
        if self.mean == 0:
            return 1.0
        if self.error == 0:
            return 0.0
        parts = self.parts()

        def beyond(power: float) -> float:
            return float(_half(10.0**power, self.seeds, *parts)) - abs(self.mean)

        if beyond(LEAST_POWER) <= 0:
            return 0.0
        return 10.0 ** optimize.brentq(beyond, LEAST_POWER, 0)

    def lower_end(self, level: float = LEVEL) -> float:
        """Of the one-sided interval: d − √(t²·a + z²·b), with the quantiles t and z at 1 − level."""
        return self.mean - float(_half(2 * level, self.seeds, *self.parts()))

    def upper_end(self, level: float = LEVEL) -> float:
        """Of the one-sided interval to the other side."""
        return self.mean + float(_half(2 * level, self.seeds, *self.parts()))

    def chance(self, size: float, looks: int = 1, seeds: int | None = None, level: float = LEVEL) -> float:
        """How often a difference of that size is found, by the first threshold of Holm's.

        A one-sided test at some level finds as often as a two-sided one at twice that `level`.
        """
        count = seeds or self.seeds
        a, b = self.parts(count)
        if a + b == 0:
            return float(size > 0)
        estimated = a * _spread_of_variance(count)  # as few seeds happen to show it
        threshold = _half(level / looks, count, estimated, b)
        return float(special.ndtr((size - threshold) / math.sqrt(a + b)).mean())

    def detectable(self, looks: int = 1, seeds: int | None = None, level: float = LEVEL) -> float:
        """The smallest difference that is found four times of five among so many looks, with this or another number
        of seeds."""
        top = 2 * float(_half(level / looks / 10, seeds or self.seeds, *self.parts(seeds)))
        return float(optimize.brentq(lambda size: self.chance(size, looks, seeds, level) - POWER, 0, top))

    def seeds_for(self, size: float, looks: int, limit: int, level: float = LEVEL) -> int | None:
        """How many seeds would find such a difference; None where `limit` would not, as with a dev set too small."""
        if self.seeds == 1:
            return None  # one seed does not say how much seeds vary
        for count in range(2, limit + 1):
            if self.chance(size, looks, count, level) >= POWER:
                return count
        return None


def _half(level: float, seeds: int, a: Any, b: float) -> Any:
    """√(t²·a + z²·b) at a level, of one a or of an array of them.

    By the functions that scipy.stats calls: a p-value takes dozens of quantiles, and its checks take far longer.
    """
    t = 0.0  # one seed: a is 0
    if seeds > 1:
        t = special.stdtrit(seeds - 1, level / 2)
    return np.sqrt(t**2 * a + special.ndtri(level / 2) ** 2 * b)


@lru_cache(maxsize=256)
def _spread_of_variance(seeds: int) -> np.ndarray:
    """χ²/(S − 1) at evenly spaced chances: how far the variance that S seeds show is from the true one."""
    if seeds == 1:
        return np.ones(1)
    degrees = seeds - 1
    return 2 * special.gammaincinv(degrees / 2, (np.arange(1000) + 0.5) / 1000) / degrees


def difference(
    ours: Sequence[float], theirs: Sequence[float], ours_drawn: np.ndarray, theirs_drawn: np.ndarray
) -> Difference:
    """Metrics of two variants by seed, and the same on every bootstrap draw: [seeds, draws]."""
    by_seed = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    drawn = ours_drawn - theirs_drawn
    seed_variance = 0.0
    if len(by_seed) > 1:
        seed_variance = float(by_seed.var(ddof=1))
    return Difference(
        mean=float(by_seed.mean()),
        seeds=len(by_seed),
        seed_variance=seed_variance,
        example_variance=float(drawn.mean(axis=0).var(ddof=1)),
        lasting=_lasting(drawn),
    )


def median_difference(differences: Sequence[Difference]) -> Difference:
    """A difference of 0 with the median of each variance."""

    def median(field: str) -> float:
        return float(np.median([getattr(item, field) for item in differences]))

    return Difference(
        mean=0.0,
        seeds=int(median("seeds")),
        seed_variance=median("seed_variance"),
        example_variance=median("example_variance"),
        lasting=median("lasting"),
    )


def _lasting(drawn: np.ndarray) -> float:
    """[seeds, draws] → the mean covariance of two seeds, as a share of the variance of the seeds' mean."""
    seeds = len(drawn)
    variance_of_mean = float(drawn.mean(axis=0).var(ddof=1))
    if seeds == 1 or variance_of_mean == 0:
        return 1.0
    sum_of_variances = float(drawn.var(axis=1, ddof=1).sum())
    covariance = (seeds**2 * variance_of_mean - sum_of_variances) / (seeds * (seeds - 1))
    return min(1.0, max(0.0, covariance / variance_of_mean))


def holm(p: Sequence[float]) -> list[float]:
    """p-values corrected for being looked at together: below 0.05 here is real at 5 % for the whole table."""
    order = np.argsort(p, kind="stable")
    corrected = np.empty(len(p))
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p) - rank) * p[index]))
        corrected[index] = largest
    return corrected.tolist()


def verdicts(differences: Sequence[Difference], high_is_best: Sequence[bool]) -> list[Verdict]:
    """What may be said of each difference of a table."""
    corrected_p = holm([item.p for item in differences])
    judged: list[Verdict] = []
    for item, p, high in zip(differences, corrected_p, high_is_best, strict=True):
        if p >= LEVEL:
            judged.append("not distinguishable")
        elif (item.mean > 0) == high:
            judged.append("better")
        else:
            judged.append("worse")
    return judged
