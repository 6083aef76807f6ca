"""Which differences are real.

Two variants A and B, a metric m, seeds s = 1 … S, the same dev examples for all:

    d_s = m(A, s) − m(B, s)                            paired by seed
    d   = mean of d_s
    V   = Var(d_s) / S + Var*(d)                       seeds, and the choice of dev examples
    d ± t(S − 1; 0.975) · √V                           95 % interval

Var* is the bootstrap's: dev examples are drawn again with replacement, the same ones for A and B and all seeds, and d
is computed anew. One seed says nothing about seeds: then V is Var*(d) alone, with the normal distribution for t.
p-values of a table are corrected by Holm's method: among m looks the smallest must be below 0.05/m, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

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

    @property
    def error(self) -> float:
        return math.sqrt(self.seed_variance / self.seeds + self.example_variance)

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
        freedom = count - 1 if count > 1 else math.inf
        wanted = stats.t.ppf(1 - LEVEL / looks / 2, freedom) + stats.t.ppf(POWER, freedom)
        return float(wanted) * math.sqrt(self.seed_variance / count + self.example_variance)

    def seeds_for(self, difference: float, looks: int = 1, most: int = 1000) -> int | None:
        """How many seeds would find such a difference; None where the dev set is too small for any number of them."""
        if self.seeds == 1:
            return None  # one seed does not say how much seeds vary
        counts = range(2, most + 1)
        return next((count for count in counts if self.detectable(looks, count) <= difference), None)


def difference(
    ours: Sequence[float], theirs: Sequence[float], ours_drawn: np.ndarray, theirs_drawn: np.ndarray
) -> Difference:
    """Metrics of two variants by seed, and the same on every bootstrap draw: [seeds, draws]."""
    by_seed = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    drawn = (ours_drawn - theirs_drawn).mean(axis=0)
    return Difference(
        mean=float(by_seed.mean()),
        seeds=len(by_seed),
        seed_variance=float(by_seed.var(ddof=1)) if len(by_seed) > 1 else 0.0,
        example_variance=float(drawn.var(ddof=1)),
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
