"""The heat map of gradient cosines: pairs of tasks, layer by layer, over time."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from manyheads.reports.facts import Records, RunFacts
from manyheads.reports.figures.panels import panel_grid
from manyheads.reports.figures.style import shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pair = tuple[str, str]
PAIRS_DRAWN = 6
TIME_BINS = 24
LEAST_RANGE = 0.1  # of the colour scale


def draw_conflict_map(facts: RunFacts) -> Figure | None:
    """A panel per pair of tasks: rows are layers, columns stretches of training, colour the mean cosine."""
    records = facts.events("conflicts")
    groups = _layer_groups(records)
    cosines = _cosines_by_pair(records, list(facts.run.recipe.tasks), groups)
    if not cosines:
        return None
    largest = LEAST_RANGE
    for record in records:
        for values in record["cosines"].values():
            largest = max(largest, *(abs(value or 0.0) for value in values))
    figure, panels = panel_grid(len(cosines), height=1.2 + 0.19 * len(groups))
    first_step, last_step = records[0]["step"], records[-1]["step"]
    extent = (first_step, max(last_step, first_step + 1), -0.5, len(groups) - 0.5)
    for number, (axes, (pair, values)) in enumerate(zip(panels, cosines.items(), strict=True)):
        image = axes.imshow(
            _mean_over_time(values),
            cmap="PuOr",
            vmin=-largest,
            vmax=largest,
            aspect="auto",
            extent=extent,
            origin="lower",
        )
        axes.set_title(f"{shorten(pair[0])} –\n{shorten(pair[1])}")
        axes.set_xlabel("step")
        axes.set_yticks(range(len(groups)), [""] * len(groups) if number % 2 else groups)
        axes.grid(visible=False)
    figure.colorbar(image, ax=panels, label="cosine", shrink=0.9)
    return figure


def _layer_groups(records: Records) -> list[str]:
    groups: dict[str, None] = {}
    for record in records:
        groups |= dict.fromkeys(record["cosines"])
    return list(groups)


def _cosines_by_pair(records: Records, tasks: list[str], groups: list[str]) -> dict[Pair, np.ndarray]:
    """Pair → [groups, records] cosines, NaN where there is none; the pairs with the largest mean cosines."""
    cosines: dict[Pair, np.ndarray] = {}
    for pair in combinations(tasks, 2):
        values = np.full((len(groups), len(records)), np.nan)
        for column, record in enumerate(records):
            for row, group in enumerate(groups):
                values[row, column] = _cosine(record, group, pair)
        if not np.isnan(values).all():
            cosines[pair] = values
    strongest = sorted(cosines, key=lambda pair: -abs(np.nanmean(cosines[pair])))[:PAIRS_DRAWN]
    return {pair: values for pair, values in cosines.items() if pair in strongest}


def _mean_over_time(values: np.ndarray) -> np.ndarray:
    """[groups, records] → [groups, stretches]."""
    stretches = np.array_split(values, min(values.shape[1], TIME_BINS), axis=1)
    means = np.full((len(values), len(stretches)), np.nan)
    for column, stretch in enumerate(stretches):
        defined = ~np.isnan(stretch).all(axis=1)
        means[defined, column] = np.nanmean(stretch[defined], axis=1)
    return means


def _cosine(record: dict[str, object], group: str, pair: Pair) -> float:
    """NaN where the record has none."""
    tasks, cosines = record["tasks"], record["cosines"]
    assert isinstance(tasks, list)
    assert isinstance(cosines, dict)
    if group not in cosines:
        return float("nan")
    for tasks_of_value, value in zip(combinations(tasks, 2), cosines[group], strict=True):
        if set(tasks_of_value) == set(pair) and value is not None:
            return float(value)
    return float("nan")
