"""What a study would cost, said before it is run."""

from __future__ import annotations

from manyheads.study.settings import Study


def describe_cost(study: Study) -> str:
    """'small: 3 rows × 3 seeds'."""
    at = study.at(None)
    rows = sum(_count(variant.grid) for variant in at.variants.values())
    more = "+" if any("layer" in one.each for one in at.variants.values()) else ""
    return f"{rows}{more} rows × {len(at.seed_list)} seeds"


def _count(grid: dict[str, list[object]]) -> int:
    count = 1
    for values in grid.values():
        count *= len(values)
    return count
