"""Figures of a comparison of runs: differences of metrics, and learning curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manyheads.reports.changes import MetricChange
from manyheads.reports.facts import RunFacts
from manyheads.reports.figures.panels import legend_below, panel_grid, single_panel
from manyheads.reports.figures.style import FAINT, VERDICT_COLOURS, line_style, shorten
from manyheads.reports.figures.training import metric_points

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_changes(changes: dict[str, list[MetricChange]]) -> Figure:
    """The difference of every run and task from the first run, with its interval."""
    names: list[str] = []
    bars: list[MetricChange] = []
    for label, run_changes in changes.items():
        for change in run_changes:
            name = f"{shorten(change.task)} {change.metric}"
            if len(changes) > 1:
                name = f"{shorten(label, 20)}: {name}"
            names.append(name)
            bars.append(change)
    figure, axes = single_panel(height=0.8 + 0.3 * len(bars))
    axes.axvline(0, color=FAINT, linestyle=":")
    for position, change in enumerate(bars):
        axes.errorbar(
            change.difference.mean,
            position,
            xerr=change.difference.half_width,
            fmt="o",
            capsize=2,
            color=VERDICT_COLOURS[change.verdict],
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("difference")
    return figure


def draw_learning_curves(runs: list[RunFacts]) -> Figure:
    """Dev metrics of all runs against the examples seen, a panel per task."""
    tasks: dict[str, None] = {}
    for facts in runs:
        tasks |= dict.fromkeys(facts.predictions)
    figure, panels = panel_grid(len(tasks))
    for task_name, axes in zip(tasks, panels, strict=True):
        for number, facts in enumerate(runs):
            points = metric_points(facts, task_name, x="seen")
            if points:
                label = shorten(facts.label, 30)
                axes.plot(*zip(*points, strict=True), marker="o", markersize=3.5, label=label, **line_style(number))
        axes.set_title(shorten(task_name, 20))
        axes.set_xlabel("examples seen")
    legend_below(figure, 2)
    return figure
