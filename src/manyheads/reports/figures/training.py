"""Figures of how a run went: dev metrics and losses, the order of tasks, rates, weights, gradients, speed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.reports.facts import RunFacts
from manyheads.reports.figures.style import COLOURS, FAINT, WIDTH, colour, line, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW = 4  # tasks, whose names fit into a figure
POINTS = 300  # of a curve: more would not be seen


def dev_metrics(facts: RunFacts) -> Figure | None:
    """Every task's primary metric on dev against the step; phases are marked, so that forgetting shows."""
    found = facts.events("evaluate")
    if not found:
        return None
    figure, axes = side_by_side()
    for number, task in enumerate(facts.run.recipe.tasks):
        metric = facts.primary(task)
        points = [(one["step"], one["metrics"][task].get(metric)) for one in found if task in one["metrics"]]
        points = [(step, value) for step, value in points if value is not None]
        if points:
            named = f"{short(task)} {metric}"
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3.5, label=named, **line(number))
    axes.plot([one["step"] for one in found], [one["overall"] for one in found], "--", color=FAINT, label="overall")
    _finish(axes, facts, "step", "on dev")
    if len(facts.run.recipe.tasks) > FEW:
        legend_below(figure, 2)
    return figure


def losses(facts: RunFacts) -> Figure | None:
    """Training loss, smoothed, and dev loss of every task, a panel each: where they part, the run over-fits."""
    steps = facts.events("step")
    tasks = [task for task in facts.run.recipe.tasks if any(task in one["loss"] for one in steps)]
    if not tasks:
        return None
    figure, every = side_by_side(len(tasks))
    for number, (task, axes) in enumerate(zip(tasks, every, strict=True)):
        points = [(one["step"], one["loss"][task]) for one in steps if task in one["loss"]]
        axes.plot(*_smooth(points), color=colour(number), label="train")
        dev = [(one["step"], one["losses"][task]) for one in facts.events("evaluate") if task in one.get("losses", {})]
        if dev:
            axes.plot(*zip(*dev, strict=True), "o--", markersize=3.5, color=colour(number), alpha=0.7, label="dev")
        axes.set_title(short(task, 20))
        _finish(axes, facts, "step", "loss" if not number else "")
    return figure


def examples_seen(facts: RunFacts) -> Figure | None:
    """How the examples of each stretch of steps are shared among tasks: the order of training."""
    steps = facts.events("step")
    sizes = facts.batch_sizes
    if not steps:
        return None
    tasks = list(facts.run.recipe.tasks)
    edges = np.linspace(0, steps[-1]["step"], min(len(steps), 60) + 1)
    counts = np.zeros((len(tasks), len(edges) - 1))
    for one in steps:
        location = min(int(np.searchsorted(edges, one["step"], side="left")) - 1, len(edges) - 2)
        for task in one["loss"]:
            counts[tasks.index(task), max(0, location)] += sizes[task]
    shares = counts / np.maximum(counts.sum(axis=0), 1)
    figure, axes = side_by_side(height=2.2)
    shades = [colour(number) for number in range(len(tasks))]
    names = [short(task) for task in tasks]
    bands = axes.stackplot((edges[:-1] + edges[1:]) / 2, shares, labels=names, colors=shades, step="mid")
    for number, band in enumerate(bands):
        band.set_hatch(("", "//", "..", "xx")[number // len(COLOURS) % 4])  # the seventh has the first one's colour
    axes.set_ylim(0, 1)
    _finish(axes, facts, "step", "share of examples")
    legend_below(figure)
    return figure


def rates(facts: RunFacts) -> Figure | None:
    """The learning rate of every group of parameters. A group is named by the layers in it."""
    steps = facts.events("step")
    if not steps:
        return None
    figure, axes = side_by_side(height=2.4)
    multiples: dict[str, float] = {}  # group → its rate as a multiple of the phase's
    found: dict[str, list[tuple[float, float]]] = {}
    for one in steps:
        multiples = one.get("learning_rates", multiples)
        for group, factor in (multiples or {"all": 1.0}).items():
            found.setdefault(group, []).append((one["step"], factor * one["learning_rate"]))
    for number, (group, points) in enumerate(found.items()):
        shade = 1.0 if len(found) <= len(COLOURS) else 1 - 0.8 * number / len(found)
        axes.plot(*_thin(points), label=group, color=colour(number if shade == 1.0 else 0), alpha=shade)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2))
    _finish(axes, facts, "step", "rate")
    return figure


def task_weights(facts: RunFacts) -> Figure | None:
    """What the scalarizer multiplied each task's loss with, and what surgery did to it."""
    steps = facts.events("step")
    kinds = [kind for kind in ("weights", "surgery") if any(kind in one for one in steps)]
    if not kinds:
        return None
    figure, every = side_by_side(len(kinds))
    for kind, axes in zip(kinds, every, strict=True):
        for number, task in enumerate(facts.run.recipe.tasks):
            points = [(one["step"], one[kind][task]) for one in steps if task in one.get(kind, {})]
            if points:
                axes.plot(*_smooth(points), label=short(task), **line(number))
        axes.set_title({"weights": "weights of losses", "surgery": "weights after surgery"}[kind])
        _finish(axes, facts, "step", "factor" if axes is every[0] else "")
    if len(facts.run.recipe.tasks) > FEW:
        legend_below(figure)
    return figure


def gradients_and_speed(facts: RunFacts) -> Figure | None:
    """The gradient's length before clipping, and steps per second."""
    from matplotlib.ticker import NullFormatter

    steps = facts.events("step")
    if len(steps) < 2:
        return None
    figure, (left, right) = side_by_side(2)
    left.plot(*_smooth([(one["step"], one["gradient_norm"]) for one in steps]))
    clip = facts.run.recipe.training.max_grad_norm
    if clip is not None:
        left.axhline(clip, color=FAINT, linestyle=":")
    left.set_yscale("log")
    left.yaxis.set_major_formatter("{x:g}")  # the usual one writes formulas
    left.yaxis.set_minor_formatter(NullFormatter())
    left.set_title("gradient norm")
    taken = [
        (after["step"], after["seconds"] - before["seconds"])
        for before, after in pairwise(steps)
        if after["step"] == before["step"] + 1
    ]
    if taken:
        at, seconds = _smooth(taken)
        right.plot(at, 1 / np.maximum(seconds, 1e-9), color=colour(2))
    right.set_title("steps per second")
    for axes in (left, right):
        _finish(axes, facts, "step", "")
    return figure


# --- shared -----------------------------------------------------------------------------------------------------


def side_by_side(count: int = 0, height: float | None = None) -> Any:
    """One pair of axes, or several, two side by side: a phone has no room for more."""
    from matplotlib.figure import Figure

    if not count:
        figure = Figure(figsize=(WIDTH, height or 3.0))
        return figure, figure.subplots()
    columns = min(count, 2)
    rows = -(-count // columns)
    figure = Figure(figsize=(WIDTH, (height or 2.6) * rows))
    every = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    for one in every[count:]:
        one.set_visible(False)
    return figure, list(every[:count])


def legend_below(figure: Figure, columns: int = 3) -> None:
    """Where every place inside is taken; the figure grows by its lines."""
    every = figure.axes
    found = {label: handle for one in every for handle, label in zip(*one.get_legend_handles_labels(), strict=True)}
    labels, handles = list(found), list(found.values())
    for one in every:
        inside = one.get_legend()
        if inside is not None:
            inside.remove()
    figure.set_figheight(figure.get_figheight() + 0.2 * -(-len(labels) // columns))
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, handlelength=1.2, columnspacing=1.2, markerscale=1.8
    )


def _finish(axes: Axes, facts: RunFacts, x: str, y: str) -> None:
    """Labels, where phases begin, and a legend if there is something to tell apart."""
    begins = [(one["step"], str(one["phase"])) for one in facts.events("step") if "phase" in one]
    changes = [step for (_, before), (step, phase) in pairwise(begins) if phase != before]
    for step in changes:
        axes.axvline(step, color=FAINT, linestyle=":", linewidth=1)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        axes.legend(handles, labels, loc="best", handlelength=1.2)


def _thin(points: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """At most so many points as can be seen."""
    found = np.array(points, dtype=np.float64)
    if len(found) > POINTS:
        found = found[np.unique(np.linspace(0, len(found) - 1, POINTS).astype(int))]
    return found[:, 0], found[:, 1]


def _smooth(points: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Means over stretches of equal length: every step counts, and few points are drawn."""
    found = np.array(points, dtype=np.float64)
    pieces = np.array_split(found, min(len(found), 40))
    return np.array([piece[:, 0].mean() for piece in pieces]), np.array([np.nanmean(piece[:, 1]) for piece in pieces])
