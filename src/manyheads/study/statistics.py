"""Which differences are real.

Two variants A and B, a metric m, seeds s = 1 … S, the same dev examples for all:

    d_s = m(A, s) − m(B, s)                            paired by seed
    d   = mean of d_s
    V   = Var(d_s) / S + Var*(d)                       seeds, and the choice of dev examples
    d ± t(S − 1; 0.975) · √V                           95 % interval

Var* is the bootstrap's: dev examples are drawn again with replacement, the same ones for A and B and all seeds, and d
is computed anew. One seed says nothing about seeds: then V is Var*(d) alone, with the normal distribution for t.
With more seeds Var* falls as well, to the mean covariance of two seeds' d_s over the draws: that much lasts.
p-values of a table are corrected by Holm's method: among m looks the smallest must be below 0.05/m, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy import optimize, stats

LEVEL = 0.05  # how often "better" or "worse" may be said of a table in which nothing differs
POWER = 0.8  # how often a difference of the detectable size is found
DRAWS = 1000  # of the bootstrap

Verdict = Literal["better", "worse", "not distinguishable"]


@dataclass(frozen=True)
class Difference:
    """How much a variant's metric differs from another's, and how sure that is."""

    mean: float
    seeds: int
    seed_variance: float  # of one seed's difference
    example_variance: float  # of the mean difference, over the choice of dev examples
    lasting: float = 1.0  # the share of it that more seeds do not take away

    @property
    def error(self) -> float:
        return self.error_with(self.seeds)

    def error_with(self, seeds: int) -> float:
        """What the standard error would be with another number of seeds."""
        by_seed = self.seed_variance + (1 - self.lasting) * self.example_variance * self.seeds
        return math.sqrt(by_seed / seeds + self.lasting * self.example_variance)

    @property
    def freedom(self) -> float:
        return self.seeds - 1 if self.seeds > 1 else math.inf

    @property
    def half_width(self) -> float:
        """Of the 95 % interval, of this difference alone."""
        return float(stats.t.ppf(1 - LEVEL / 2, self.freedom)) * self.error

    @property
    def p(self) -> float:
        """How likely so large a difference, or a larger one, is where there is none."""
        if self.error == 0:
            return 1.0 if self.mean == 0 else 0.0
        return float(2 * stats.t.sf(abs(self.mean) / self.error, self.freedom))

    def detectable(self, looks: int = 1, seeds: int | None = None) -> float:
        """The smallest difference that is found four times of five among so many looks, with this or another number
        of seeds."""
        count = seeds or self.seeds
        return _detectable_errors(count, looks) * self.error_with(count)

    def seeds_for(self, difference: float, looks: int, most: int) -> int | None:
        """How many seeds would find such a difference; None where `most` would not, as with a dev set too small."""
        if self.seeds == 1:
            return None  # one seed does not say how much seeds vary
        counts = np.arange(2, most + 1)
        errors = np.array([self.error_with(int(count)) for count in counts])
        threshold = stats.t.ppf(1 - LEVEL / looks / 2, counts - 1)
        enough = counts[stats.nct.sf(threshold, counts - 1, difference / errors) >= POWER]
        return int(enough[0]) if enough.size else None


def difference(
    ours: Sequence[float], theirs: Sequence[float], ours_drawn: np.ndarray, theirs_drawn: np.ndarray
) -> Difference:
    """Metrics of two variants by seed, and the same on every bootstrap draw: [seeds, draws]."""
    by_seed = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    drawn = ours_drawn - theirs_drawn
    return Difference(
        mean=float(by_seed.mean()),
        seeds=len(by_seed),
        seed_variance=float(by_seed.var(ddof=1)) if len(by_seed) > 1 else 0.0,
        example_variance=float(drawn.mean(axis=0).var(ddof=1)),
        lasting=_lasting(drawn),
    )


def middle(some: Sequence[Difference]) -> Difference:
    """One that varies as the given ones do: the median of each variance."""
    return Difference(
        mean=0.0,
        seeds=int(np.median([one.seeds for one in some])),
        seed_variance=float(np.median([one.seed_variance for one in some])),
        example_variance=float(np.median([one.example_variance for one in some])),
        lasting=float(np.median([one.lasting for one in some])),
    )


def _lasting(drawn: np.ndarray) -> float:
    """[seeds, draws] → the mean covariance of two seeds, as a share of the variance of the seeds' mean."""
    seeds = len(drawn)
    whole = float(drawn.mean(axis=0).var(ddof=1))
    if seeds == 1 or whole == 0:
        return 1.0
    each = float(drawn.var(axis=1, ddof=1).sum())
    between = (seeds**2 * whole - each) / (seeds * (seeds - 1))
    return min(1.0, max(0.0, between / whole))


@lru_cache(maxsize=256)
def _detectable_errors(seeds: int, looks: int) -> float:
    """How many standard errors a difference must have to be found four times of five.

    d/√V is then Student's t around that number (the noncentral t), and must pass the first threshold of Holm's.
    """
    if seeds == 1:
        return float(stats.norm.ppf(1 - LEVEL / looks / 2) + stats.norm.ppf(POWER))
    threshold = float(stats.t.ppf(1 - LEVEL / looks / 2, seeds - 1))
    return float(
        optimize.brentq(lambda size: stats.nct.sf(threshold, seeds - 1, size) - POWER, 0, 2 * threshold + 2 * POWER)
    )


def holm(p: Sequence[float]) -> list[float]:
    """p-values corrected for being looked at together: below 0.05 here is real at 5 % for the whole table."""
    order = np.argsort(p, kind="stable")
    found = np.empty(len(p))
    running = 0.0
    for place, index in enumerate(order):
        running = max(running, min(1.0, (len(p) - place) * p[index]))
        found[index] = running
    return found.tolist()


def verdicts(differences: Sequence[Difference], high_is_best: Sequence[bool]) -> list[Verdict]:
    """What may be said of each difference of a table."""
    found: list[Verdict] = []
    for one, corrected, high in zip(differences, holm([d.p for d in differences]), high_is_best, strict=True):
        if corrected >= LEVEL:
            found.append("not distinguishable")
        else:
            found.append("better" if (one.mean > 0) == high else "worse")
    return found
