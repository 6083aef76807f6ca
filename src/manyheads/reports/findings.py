"""What a person should look at first, in plain sentences that follow from the data; each names its figure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError
from manyheads.parts.metrics import better, primary, worse_by
from manyheads.reports.conflicts import ENOUGH, EVERYWHERE, read_conflicts
from manyheads.reports.facts import RunFacts
from manyheads.studies.bootstrap import drawn_metric
from manyheads.studies.statistics import difference

RISEN, AT_LEAST = 1.1, 0.02  # a dev loss so many times its lowest value, and so much above it, has over-fitted
BEHIND = 0.02  # a primary metric so far behind its best, and farther than chance explains, was forgotten
STARVED = 0.5  # passes over a task, below which most of it was never seen


@dataclass(frozen=True)
class Finding:
    """A sentence, and the section that shows it."""

    text: str
    section: str


@dataclass(frozen=True)
class Headline:
    """A task's primary metric on dev, with its 95 % interval over dev examples; and what sharing did to it."""

    task: str
    metric: str
    value: float | None
    interval: str  # '' where one cannot be had
    examples: int
    shared: str  # '' where no single-task run on the same dev examples lies beside this one


def headlines(facts: RunFacts) -> list[Headline]:
    found = []
    for name, one in facts.predictions.items():
        metric = primary(one.task)
        value = facts.metrics["dev"]["metrics"][name][metric]
        drawn = drawn_metric(one.task, metric, one.predictions, one.labels, facts.metrics["data"][f"{name} dev"])
        drawn = drawn[np.isfinite(drawn)]
        low, high = np.quantile(drawn, [0.025, 0.975]) if len(drawn) > 1 else (0.0, 0.0)
        if metric == "accuracy" and value is not None:
            low, high = wilson(value, len(one.labels))
        interval = f"{low:.3f} to {high:.3f}" if high > low and len(one.labels) > 1 else ""
        found.append(Headline(name, metric, value, interval, len(one.labels), _sharing(facts, name)))
    return found


def findings(facts: RunFacts) -> list[Finding]:
    """In the order of importance; nothing where nothing stands out."""
    return [*_constant(facts), *_over_fitting(facts), *_forgetting(facts), *_starving(facts), *_conflicts(facts)]


def nothing_found(facts: RunFacts) -> str:
    """What was looked for in vain, and could have been found."""
    looked = ["no task answers always the same"]
    if len(facts.events("evaluate")) > 1:
        looked.append("none over-fits or was better before")
    if len(facts.run.recipe.tasks) > 1:
        looked.append("none was hardly seen")
        measured = facts.events("conflicts")
        if len(measured) >= ENOUGH:
            looked.append("no two were found to fight")
    return "Nothing stands out: " + ", ".join(looked) + "."


def _constant(facts: RunFacts) -> list[Finding]:
    found = []
    for name, one in facts.predictions.items():
        if one.labels.ndim == 1 and one.task.kind != "regression" and len(one.labels) > 1:
            guessed = np.unique(one.guesses)
            if len(guessed) == 1 and len(np.unique(one.labels)) > 1:
                only = one.task.labels.names[int(guessed[0])]
                found.append(Finding(f"{name} always answers {only}: it has learnt nothing yet.", f"task-{name}"))
    return found


def _over_fitting(facts: RunFacts) -> list[Finding]:
    found = []
    for task in facts.run.recipe.tasks:
        points = [
            (one["step"], one["losses"][task]) for one in facts.events("evaluate") if task in one.get("losses", {})
        ]
        if len(points) > 1:
            step, lowest = min(points, key=lambda point: point[1])
            if points[-1][1] > max(RISEN * lowest, lowest + AT_LEAST):
                now = f"at the last evaluation it is {points[-1][1]:.3f}"
                text = f"{task} over-fits: its dev loss was lowest ({lowest:.3f}) at step {step:,}, {now}."
                found.append(Finding(text, "losses"))
    return found


def _forgetting(facts: RunFacts) -> list[Finding]:
    found = []
    for name, task in facts.tasks.items():
        metric = primary(task)
        points = [
            (one["step"], one["metrics"][name][metric]) for one in facts.events("evaluate") if name in one["metrics"]
        ]
        if len(points) < 2:
            continue
        best = points[0]
        for point in points[1:]:
            best = point if better(task, point[1], best[1]) else best
        last = points[-1][1]
        chance = 1 / max(1, facts.events("evaluate")[-1]["examples"].get(name, 1)) ** 0.5
        if best[1] is not None and last is not None and worse_by(task, last, best[1]) > max(BEHIND, chance):
            before = f"its {metric} was {best[1]:.3f} at step {best[0]:,}"
            text = f"{name} was better before: {before} and is {last:.3f} at the last evaluation."
            found.append(Finding(text, "dev-metrics"))
    return found


def _starving(facts: RunFacts) -> list[Finding]:
    found = []
    seen = facts.metrics.get("examples_seen", {})
    for name, task in facts.tasks.items():
        passes = seen.get(name, 0) / max(1, task.rows)
        if facts.finished and name in facts.predictions and passes < STARVED:
            found.append(Finding(f"{name} was starved: {passes:.0%} of its train examples were seen.", "examples-seen"))
    return found


def _conflicts(facts: RunFacts) -> list[Finding]:
    try:
        measured = read_conflicts(facts.run)
    except UserError:
        return []
    looks = sum(len(groups) for groups in measured.pairs.values())
    return [
        Finding(f"The gradients of {pair} fight: their mean cosine is {groups[EVERYWHERE].cosine:+.2f}.", "conflict")
        for pair, groups in measured.pairs.items()
        if EVERYWHERE in groups and groups[EVERYWHERE].direction(looks) < 0
    ]


def _sharing(facts: RunFacts, task: str) -> str:
    """Against the most alike of the finished runs beside this one that trained this task alone and were measured on
    the same examples. In what else they differ is said."""
    if len(facts.predictions) < 2:
        return ""
    wanted = facts.metrics["data"][f"{task} dev"]
    alone = [
        one
        for one in facts.beside
        if one.metrics.get("data", {}).get(f"{task} dev") == wanted and list(one.metrics["dev"]["metrics"]) == [task]
    ]
    if not alone:
        return ""
    differ = [_differences(facts.run.recipe, one.run.recipe, task) for one in alone]
    nearest = min(range(len(alone)), key=lambda location: len(differ[location]))
    return _against(facts, alone[nearest], task, differ[nearest])


def _differences(shared: Recipe, alone: Recipe, task: str) -> list[str]:
    """Settings that differ and would matter to a task alone: not the other tasks, their order, their combination."""
    left_out = {"name", "output", "description", "report", "trackers", "tasks", "sampler", "combine", "checkpoint"}
    one, other = (recipe.model_dump(mode="json", exclude=left_out) for recipe in (shared, alone))
    for each in (one, other):
        each["evaluate"].pop("weights")
        each["training"].pop("conflicts")
    one["task"], other["task"] = (recipe.tasks[task].model_dump(mode="json") for recipe in (shared, alone))
    found = []
    for section, value in one.items():
        if isinstance(value, dict):
            found += [f"{section}.{key}" for key in value if value[key] != (other[section] or {}).get(key)]
        elif value != other[section]:
            found.append(section)
    return found


def _against(facts: RunFacts, alone: RunFacts, task: str, differ: list[str]) -> str:
    ours, theirs = facts.predictions[task], alone.predictions[task]
    metric = primary(ours.task)
    dev = facts.metrics["data"][f"{task} dev"]
    drawn = [drawn_metric(one.task, metric, one.predictions, one.labels, dev)[None] for one in (ours, theirs)]
    values = [one.metrics["dev"]["metrics"][task][metric] for one in (facts, alone)]
    if None in values:
        return ""
    found = difference([values[0]], [values[1]], *drawn)
    sure = abs(found.mean) > found.half_width
    helped = better(ours.task, values[0], values[1])
    told = ("sharing helped" if helped else "sharing hurt") if sure else "sharing made no difference that can be told"
    also = f", which also differs in {', '.join(differ[:4])}{' …' if len(differ) > 4 else ''}" if differ else ""
    return f"{told} ({found.mean:+.3f} ± {found.half_width:.3f} against {alone.name}{also}; one seed each)"


def wilson(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share, also where it is 0 or 1."""
    z = 1.96
    middle, width = share + z * z / (2 * count), z * (share * (1 - share) / count + (z / (2 * count)) ** 2) ** 0.5
    return (middle - width) / (1 + z * z / count), (middle + width) / (1 + z * z / count)
