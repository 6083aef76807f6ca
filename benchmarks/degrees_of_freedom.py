"""How often two kinds of t test say "different" where nothing differs, at the level that Holm asks of twelve looks.

    python benchmarks/degrees_of_freedom.py

Seeds vary with variance σ², dev examples shift all seeds together with variance τ² (known well, by the bootstrap).
The study's test has S − 1 degrees of freedom; Satterthwaite's has (a + b)²/(a²/(S − 1)) with a = s²/S and b = τ².
"""

from __future__ import annotations

import numpy as np
from scipy import stats

STUDIES = 400_000
LEVEL = 0.05 / 12


def main() -> None:
    draw = np.random.default_rng(0)
    print(f"wanted: {LEVEL:.4f}")
    print("| seeds | σ²/S ÷ τ² | S − 1 | Satterthwaite | its error ÷ what it may |\n|---|---|---|---|---|")
    for seeds in (2, 3, 5):
        for ratio in (0.25, 1.0, 2.0, 4.0):
            shift = draw.normal(0, 1, STUDIES)[:, None]
            found = shift + draw.normal(0, np.sqrt(ratio * seeds), (STUDIES, seeds))
            own = found.var(axis=1, ddof=1) / seeds
            size = np.abs(found.mean(axis=1)) / np.sqrt(own + 1)
            plain = np.mean(size > stats.t.ppf(1 - LEVEL / 2, seeds - 1))
            between = np.mean(size > stats.t.ppf(1 - LEVEL / 2, (own + 1) ** 2 * (seeds - 1) / own**2))
            print(f"| {seeds} | {ratio:g} | {plain:.4f} | {between:.4f} | {between / LEVEL:.1f} |")


if __name__ == "__main__":
    main()
