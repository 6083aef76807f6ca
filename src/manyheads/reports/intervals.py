"""Confidence intervals that need no bootstrap."""

from __future__ import annotations

Z = 1.96  # of a 95 % interval


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share p of n examples; it holds for p = 0 and p = 1 too.

    (p + z²/2n ± z·√(p(1 − p)/n + z²/4n²)) / (1 + z²/n)
    """
    centre = share + Z * Z / (2 * count)
    half_width = Z * (share * (1 - share) / count + (Z / (2 * count)) ** 2) ** 0.5
    scale = 1 + Z * Z / count
    return (centre - half_width) / scale, (centre + half_width) / scale
