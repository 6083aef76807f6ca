"""How often "not worse" is said of a row that is worse by the whole margin, and what the advice on seeds is worth.

    python benchmarks/noninferiority.py

Of a difference d the seeds have a share of the variance, dev examples the rest (known well, by the bootstrap). Seeds
are normal; or now and then one collapses: the exponential distribution, with its tail towards bad values. The advice is
what `needed_for` says of studies of three seeds, for a margin that a known number of seeds shows four times of five.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from manyheads.studies.noninferiority import ONE_SIDED, needed_for
from manyheads.studies.statistics import POWER, Difference

STUDIES = 400_000
ADVISED = 400  # studies that are advised
LEVEL = 0.05
MARGIN = 1.0


def errors(draw: np.random.Generator, seeds: int, share: float) -> tuple[float, float]:
    """How often L lies above the truth, with normal seeds and with some that collapse."""
    deviation = np.sqrt(share * seeds)
    shift = draw.normal(0, np.sqrt(1 - share), STUDIES)
    t, z = stats.t.isf(LEVEL, seeds - 1), stats.norm.isf(LEVEL)
    found = []
    for effects in (draw.normal(0, 1, (STUDIES, seeds)), 1 - draw.exponential(1, (STUDIES, seeds))):
        by_seed = deviation * effects
        a = by_seed.var(axis=1, ddof=1) / seeds
        half = np.sqrt(t**2 * a + z**2 * (1 - share))
        found.append(float(np.mean(by_seed.mean(axis=1) + shift - half > 0)))
    return found[0], found[1]


def errors_of_looks(draw: np.random.Generator, looks: tuple[int, ...], share: float) -> float:
    """How often L lies above the truth at any of several looks, each after so many seeds; the share is the last's."""
    by_seed = draw.normal(0, np.sqrt(share * looks[-1]), (STUDIES, looks[-1]))
    shift = draw.normal(0, np.sqrt(1 - share), STUDIES)
    is_above = np.zeros(STUDIES, dtype=bool)
    for seeds in looks:
        a = by_seed[:, :seeds].var(axis=1, ddof=1) / seeds
        half = np.sqrt(stats.t.isf(LEVEL, seeds - 1) ** 2 * a + stats.norm.isf(LEVEL) ** 2 * (1 - share))
        is_above |= by_seed[:, :seeds].mean(axis=1) + shift - half > 0
    return float(np.mean(is_above))


def advice(draw: np.random.Generator, true: Difference) -> tuple[list[int], float]:
    """A tenth, half and nine tenths of what studies of three seeds are advised; how often that shows the margin."""
    advised, chances = [], []
    for chi in draw.chisquare(true.seeds - 1, ADVISED):
        seen = Difference(0.0, true.seeds, true.seed_variance * chi / (true.seeds - 1), true.example_variance)
        seeds = needed_for(seen, MARGIN, 1).seeds
        if seeds is not None:
            advised.append(seeds)
            chances.append(true.chance(MARGIN, 1, seeds, ONE_SIDED))
    return [int(np.quantile(advised, at)) for at in (0.1, 0.5, 0.9)], float(np.mean(chances))


def main() -> None:
    draw = np.random.default_rng(0)
    print(f"'not worse' of rows that are worse by the margin (at most {LEVEL}):")
    print("| seeds | share of the variance that is theirs | normal seeds | some collapse |\n|---|---|---|---|")
    for seeds in (2, 3, 5):
        for share in (0.0, 0.2, 0.5, 0.8, 1.0):
            normal, collapsing = errors(draw, seeds, share)
            print(f"| {seeds} | {share:g} | {normal:.3f} | {collapsing:.3f} |")
    print("\nthe same where the study is looked at more than once, and stopped at 'not worse':")
    print("| share of the variance | after 5 seeds | after 3, then 5 | after 2, 3, 4, 5 |\n|---|---|---|---|")
    for share in (0.2, 0.5, 1.0):
        rates = [errors_of_looks(draw, looks, share) for looks in ((5,), (3, 5), (2, 3, 4, 5))]
        print(f"| {share:g} | {' | '.join(f'{rate:.3f}' for rate in rates)} |")
    print(f"\nadvice after three seeds (aim: {POWER}):")
    print("| seeds that are needed | 10 %, 50 %, 90 % of the advice | shown with as many |\n|---|---|---|")
    for seed_variance in (0.25, 0.5, 1.0):
        true = Difference(0.0, 3, seed_variance, 0.04)
        advised, chance = advice(draw, true)
        print(f"| {needed_for(true, MARGIN, 1).seeds} | {advised} | {chance:.2f} |")


if __name__ == "__main__":
    main()
