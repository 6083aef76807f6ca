"""Figures of the training: dev metrics and losses, the order of tasks, learning rates, weights, gradients, speed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from manyheads.reports.facts import Points, Records, RunFacts
from manyheads.reports.figures.panels import legend_below, panel_grid, single_panel
from manyheads.reports.figures.style import COLOURS, FAINT, colour, line_style, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TASKS_INSIDE = 4  # a legend of more tasks stands below the figure
POINTS = 300  # of a curve: more would be invisible
SMOOTH_POINTS = 40  # of a smoothed curve
TIME_BINS = 60
HATCHES = ("", "//", "..", "xx")
WEIGHT_TITLES = {"weights": "weights of losses", "surgery": "weights after surgery"}


def dev_metrics(facts: RunFacts) -> Figure | None:
    """Every task's primary metric on dev, and on train where it is measured, against the step.

    Lines mark phases, so that forgetting is visible.
    """
    evaluations = facts.events("evaluate")
    if not evaluations:
        return None
    figure, axes = single_panel()
    on_train = any("train" in record for record in evaluations)
    for number, task_name in enumerate(facts.run.recipe.tasks):
        metric = facts.primary_metric(task_name)
        points = metric_points(facts, task_name, x="step")
        if points:
            label = f"{shorten(task_name)} {metric}"
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3.5, label=label, **line_style(number))
        train_points = metric_points(facts, task_name, x="step", split="train")
        if train_points:
            axes.plot(
                *zip(*train_points, strict=True), ":", color=colour(number), label=f"{shorten(task_name)} on train"
            )
    steps = [record["step"] for record in evaluations]
    axes.plot(steps, [record["overall"] for record in evaluations], "--", color=FAINT, label="overall")
    _finish(axes, facts, "on dev and train" if on_train else "on dev")
    if len(facts.run.recipe.tasks) > TASKS_INSIDE or on_train:
        legend_below(figure, 2)
    return figure


def metric_points(facts: RunFacts, task_name: str, x: str, split: str = "metrics") -> Points:
    """A task's primary metric on dev, or on 'train', against the 'step' or the examples 'seen' of all tasks."""
    metric = facts.primary_metric(task_name)
    points = []
    for record in facts.evaluations(task_name):
        value = record.get(split, {}).get(task_name, {}).get(metric)
        if value is None:
            continue
        if x == "seen":
            points.append((sum(record["seen"].values()), value))
        else:
            points.append((record["step"], value))
    return points


def losses(facts: RunFacts) -> Figure | None:
    """Training loss, smoothed, and dev loss of every task, a panel each: where they diverge, the run over-fits."""
    train_losses = {}
    for task_name in facts.run.recipe.tasks:
        points = facts.points("step", "loss", task_name)
        if points:
            train_losses[task_name] = points
    if not train_losses:
        return None
    figure, panels = panel_grid(len(train_losses))
    for number, (task_name, points) in enumerate(train_losses.items()):
        axes = panels[number]
        axes.plot(*_smooth(points), color=colour(number), label="train")
        dev_losses = facts.points("evaluate", "losses", task_name)
        if dev_losses:
            steps, values = zip(*dev_losses, strict=True)
            axes.plot(steps, values, "o--", markersize=3.5, color=colour(number), alpha=0.7, label="dev")
        axes.set_title(shorten(task_name, 20))
        _finish(axes, facts, "" if number else "loss")
    return figure


def examples_seen(facts: RunFacts) -> Figure | None:
    """The share of each task in the examples, over time: the order of training."""
    steps = facts.events("step")
    if not steps:
        return None
    tasks = list(facts.run.recipe.tasks)
    edges = np.linspace(0, steps[-1]["step"], min(len(steps), TIME_BINS) + 1)
    counts = _examples_by_bin(steps, edges, facts.batch_sizes)
    shares = counts / np.maximum(counts.sum(axis=0), 1)
    figure, axes = single_panel(height=2.2)
    colours = [colour(number) for number in range(len(tasks))]
    centres = (edges[:-1] + edges[1:]) / 2
    bands = axes.stackplot(centres, shares, labels=list(map(shorten, tasks)), colors=colours, step="mid")
    for number, band in enumerate(bands):
        band.set_hatch(HATCHES[number // len(COLOURS) % len(HATCHES)])  # the seventh has the first one's colour
    axes.set_ylim(0, 1)
    _finish(axes, facts, "share of examples")
    legend_below(figure)
    return figure


def _examples_by_bin(steps: Records, edges: np.ndarray, batch_sizes: dict[str, int]) -> np.ndarray:
    """[tasks, bins] how many examples of each task the steps of each bin have."""
    tasks = list(batch_sizes)
    bins = len(edges) - 1
    counts = np.zeros((len(tasks), bins))
    for record in steps:
        position = int(np.searchsorted(edges, record["step"], side="left")) - 1
        for task_name in record["loss"]:
            counts[tasks.index(task_name), np.clip(position, 0, bins - 1)] += batch_sizes[task_name]
    return counts


def learning_rates(facts: RunFacts) -> Figure | None:
    """The learning rate of every parameter group, named by its layers."""
    steps = facts.events("step")
    if not steps:
        return None
    figure, axes = single_panel(height=2.4)
    multiples: dict[str, float] = {}  # group → its rate as a multiple of the phase's
    curves: dict[str, Points] = {}
    for record in steps:
        multiples = record.get("learning_rates", multiples)
        for group, multiple in (multiples or {"all": 1.0}).items():
            curves.setdefault(group, []).append((record["step"], multiple * record["learning_rate"]))
    for number, (group, points) in enumerate(curves.items()):
        if len(curves) <= len(COLOURS):
            axes.plot(*_thin(points), label=group, color=colour(number), alpha=1.0)
        else:  # a group per layer: shades of one colour
            axes.plot(*_thin(points), label=group, color=colour(0), alpha=1 - 0.8 * number / len(curves))
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2))
    _finish(axes, facts, "learning rate")
    return figure


def task_weights(facts: RunFacts) -> Figure | None:
    """The factor of each task's loss by the scalarizer, and its weight after surgery."""
    steps = facts.events("step")
    logged = [name for name in WEIGHT_TITLES if any(name in record for record in steps)]
    if not logged:
        return None
    figure, panels = panel_grid(len(logged))
    for name, axes in zip(logged, panels, strict=True):
        for number, task_name in enumerate(facts.run.recipe.tasks):
            points = facts.points("step", name, task_name)
            if points:
                axes.plot(*_smooth(points), label=shorten(task_name), **line_style(number))
        axes.set_title(WEIGHT_TITLES[name])
        _finish(axes, facts, "factor" if axes is panels[0] else "")
    if len(facts.run.recipe.tasks) > TASKS_INSIDE:
        legend_below(figure)
    return figure


def gradients_and_speed(facts: RunFacts) -> Figure | None:
    """The gradient norm before clipping, and steps per second."""
    steps = facts.events("step")
    if len(steps) < 2:
        return None
    figure, (norm_axes, speed_axes) = panel_grid(2)
    _draw_norms(norm_axes, steps, facts.run.recipe.training.max_grad_norm)
    durations: Points = []
    for before, after in pairwise(steps):
        if after["step"] == before["step"] + 1:
            durations.append((after["step"], after["seconds"] - before["seconds"]))
    if durations:
        at_step, seconds = _smooth(durations)
        speed_axes.plot(at_step, 1 / np.maximum(seconds, 1e-9), color=colour(2))
    speed_axes.set_title("steps per second")
    for axes in (norm_axes, speed_axes):
        _finish(axes, facts, "")
    return figure


def _draw_norms(axes: Axes, steps: Records, max_grad_norm: float | None) -> None:
    from matplotlib.ticker import NullFormatter

    axes.plot(*_smooth([(record["step"], record["gradient_norm"]) for record in steps]))
    if max_grad_norm is not None:
        axes.axhline(max_grad_norm, color=FAINT, linestyle=":")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")  # the default formatter writes formulas
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title("gradient norm")


# --- shared -----------------------------------------------------------------------------------------------------


def _finish(axes: Axes, facts: RunFacts, y: str) -> None:
    """Labels, a line where a phase begins, and a legend if there is something to tell apart."""
    phases = [(record["step"], str(record["phase"])) for record in facts.events("step") if "phase" in record]
    for (_, phase_before), (step, phase) in pairwise(phases):
        if phase != phase_before:
            axes.axvline(step, color=FAINT, linestyle=":", linewidth=1)
    axes.set_xlabel("step")
    axes.set_ylabel(y)
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        axes.legend(handles, labels, loc="best", handlelength=1.2)


def _thin(points: Points) -> tuple[np.ndarray, np.ndarray]:
    """At most as many points as are visible."""
    curve = np.array(points, dtype=np.float64)
    if len(curve) > POINTS:
        curve = curve[np.unique(np.linspace(0, len(curve) - 1, POINTS).astype(int))]
    return curve[:, 0], curve[:, 1]


def _smooth(points: Points) -> tuple[np.ndarray, np.ndarray]:
    """Means over stretches of equal length: every step counts, and few points are drawn."""
    curve = np.array(points, dtype=np.float64)
    steps, values = [], []
    for stretch in np.array_split(curve, min(len(curve), SMOOTH_POINTS)):
        steps.append(stretch[:, 0].mean())
        values.append(np.nanmean(stretch[:, 1]))
    return np.array(steps), np.array(values)
