"""How often three kinds of t test say "different" where nothing differs, at the level that Holm asks of twelve looks.

    python benchmarks/degrees_of_freedom.py

Seeds vary with variance σ², dev examples shift all seeds together with variance τ² (known well, by the bootstrap).
With a = s²/S and b = τ², a difference d is found where

    d² > t(S − 1)²·a + z²·b             the study's test: t for what seeds say, z for what is known well
    d² > t(S − 1)²·(a + b)              t for all
    d² > t(f)²·(a + b)                  Satterthwaite's, f = (a + b)²/(a²/(S − 1))
"""

from __future__ import annotations

import numpy as np
from scipy import stats

STUDIES = 400_000
LEVEL = 0.05 / 12


def main() -> None:
    draw = np.random.default_rng(0)
    print(f"wanted: {LEVEL:.4f}")
    print("errors ÷ what is wanted:")
    print("| seeds | σ²/S ÷ τ² | the study's | t for all | Satterthwaite |\n|---|---|---|---|---|")
    for seeds in (2, 3, 5):
        for ratio in (0.25, 1.0, 2.0, 4.0):
            shift = draw.normal(0, 1, STUDIES)[:, None]
            found = shift + draw.normal(0, np.sqrt(ratio * seeds), (STUDIES, seeds))
            own = found.var(axis=1, ddof=1) / seeds
            squared = found.mean(axis=1) ** 2
            t, z = stats.t.ppf(1 - LEVEL / 2, seeds - 1) ** 2, stats.norm.ppf(1 - LEVEL / 2) ** 2
            between = stats.t.ppf(1 - LEVEL / 2, (own + 1) ** 2 * (seeds - 1) / own**2) ** 2
            rules = (t * own + z, t * (own + 1), between * (own + 1))
            shares = " | ".join(f"{np.mean(squared > rule) / LEVEL:.2f}" for rule in rules)
            print(f"| {seeds} | {ratio:g} | {shares} |")


if __name__ == "__main__":
    main()
