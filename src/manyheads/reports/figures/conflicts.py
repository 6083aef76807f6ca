"""The heat map of gradient cosines: pairs of tasks, layer by layer, over time."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from manyheads.reports.facts import RunFacts
from manyheads.reports.figures.style import short
from manyheads.reports.figures.training import side_by_side

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pair = tuple[str, str]
PAIRS = 6  # shown at the most
STRETCHES = 24  # columns at the most


def conflict_map(facts: RunFacts) -> Figure | None:
    """A panel per pair of tasks: rows are layers, columns stretches of training, colour the mean cosine."""
    found = facts.events("conflicts")
    tasks = [task for task in facts.run.recipe.tasks if any(task in one["tasks"] for one in found)]
    groups = list(dict.fromkeys(group for one in found for group in one["cosines"]))
    pairs = _most_telling(list(combinations(tasks, 2)), found, groups)
    if not pairs:
        return None
    figure, every = side_by_side(len(pairs), height=1.2 + 0.19 * len(groups))
    largest = max(0.1, *(abs(value or 0.0) for one in found for some in one["cosines"].values() for value in some))
    image = None
    for number, (axes, (one, other)) in enumerate(zip(every, pairs, strict=True)):
        pieces = np.array_split(np.arange(len(found)), min(len(found), STRETCHES))
        values = np.full((len(groups), len(pieces)), np.nan)
        for column, piece in enumerate(pieces):
            for row, group in enumerate(groups):
                some = [_cosine(found[location], group, one, other) for location in piece]
                kept = [value for value in some if value is not None]
                values[row, column] = np.mean(kept) if kept else np.nan
        first, last = found[0]["step"], found[-1]["step"]
        spread = (first, max(last, first + 1), -0.5, len(groups) - 0.5)
        image = axes.imshow(
            values, cmap="PuOr", vmin=-largest, vmax=largest, aspect="auto", extent=spread, origin="lower"
        )
        axes.set_title(f"{short(one)} –\n{short(other)}")
        axes.set_xlabel("step")
        axes.set_yticks(range(len(groups)), groups if number % 2 == 0 else [""] * len(groups))
        axes.grid(visible=False)
    assert image is not None
    figure.colorbar(image, ax=every, label="cosine", shrink=0.9)
    return figure


def _most_telling(pairs: list[Pair], found: list[dict[str, object]], groups: list[str]) -> list[Pair]:
    """As many pairs as can be shown: those that fight or help most."""
    strength: dict[Pair, float] = {}
    for pair in pairs:
        some = [_cosine(record, group, *pair) for record in found for group in groups]
        kept = [value for value in some if value is not None]
        if kept:
            strength[pair] = abs(float(np.mean(kept)))
    chosen = sorted(strength, key=lambda pair: -strength[pair])[:PAIRS]
    return [pair for pair in pairs if pair in chosen]


def _cosine(record: dict[str, object], group: str, one: str, other: str) -> float | None:
    tasks, cosines = record["tasks"], record["cosines"]
    assert isinstance(tasks, list)
    assert isinstance(cosines, dict)
    if one not in tasks or other not in tasks or group not in cosines:
        return None
    for (i, j), value in zip(combinations(range(len(tasks)), 2), cosines[group], strict=True):
        if {tasks[i], tasks[j]} == {one, other}:
            return None if value is None else float(value)
    return None
