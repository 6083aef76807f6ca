"""What a person should look at first, in plain sentences that follow from the data; each names its figure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyheads.conflict_report import EVERYWHERE, read_conflicts
from manyheads.errors import UserError
from manyheads.metrics import better, primary, worse_by
from manyheads.report.gather import RunFacts, beside
from manyheads.run import Run
from manyheads.study.bootstrap import drawn_metric
from manyheads.study.statistics import difference

RISEN = 1.1  # a dev loss so many times its lowest value has over-fitted
BEHIND = 0.02  # a primary metric so far behind its best was forgotten
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
    low: float
    high: float
    examples: int
    shared: str  # '' where no single-task run on the same dev examples lies beside this one


def headlines(facts: RunFacts) -> list[Headline]:
    found = []
    for name, one in facts.answers.items():
        metric = primary(one.task)
        value = facts.metrics["dev"]["metrics"][name][metric]
        drawn = drawn_metric(one.task, metric, one.answers, one.labels, facts.metrics["data"][f"{name} dev"])
        drawn = drawn[np.isfinite(drawn)]
        low, high = np.quantile(drawn, [0.025, 0.975]) if len(drawn) > 1 else (np.nan, np.nan)
        found.append(Headline(name, metric, value, float(low), float(high), len(one.labels), _sharing(facts, name)))
    return found


def findings(facts: RunFacts) -> list[Finding]:
    """In the order of importance; nothing where nothing stands out."""
    return [*_over_fitting(facts), *_forgetting(facts), *_starving(facts), *_conflicts(facts)]


def _over_fitting(facts: RunFacts) -> list[Finding]:
    found = []
    for task in facts.run.recipe.tasks:
        points = [
            (one["step"], one["losses"][task]) for one in facts.events("evaluate") if task in one.get("losses", {})
        ]
        if len(points) > 1:
            step, lowest = min(points, key=lambda point: point[1])
            if points[-1][1] > RISEN * lowest:
                now = f"at the end it is {points[-1][1]:.3f}"
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
        if best[1] is not None and last is not None and worse_by(task, last, best[1]) > BEHIND:
            before = f"its {metric} was {best[1]:.3f} at step {best[0]:,}"
            found.append(Finding(f"{name} was better before: {before} and is {last:.3f} at the end.", "dev-metrics"))
    return found


def _starving(facts: RunFacts) -> list[Finding]:
    found = []
    seen = facts.metrics.get("examples_seen", {})
    for name, task in facts.tasks.items():
        passes = seen.get(name, 0) / max(1, task.rows)
        if facts.finished and name in facts.answers and passes < STARVED:
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
    """Against a finished run beside this one that trained this task alone and was measured on the same examples."""
    if len(facts.answers) < 2:
        return ""
    wanted = facts.metrics["data"][f"{task} dev"]
    for folder in beside(facts.folder):
        metrics = Run(folder).metrics
        if metrics.get("data", {}).get(f"{task} dev") != wanted or list(metrics["dev"]["metrics"]) != [task]:
            continue
        return _against(facts, RunFacts(folder), task)
    return ""


def _against(facts: RunFacts, alone: RunFacts, task: str) -> str:
    ours, theirs = facts.answers[task], alone.answers[task]
    metric = primary(ours.task)
    dev = facts.metrics["data"][f"{task} dev"]
    drawn = [drawn_metric(one.task, metric, one.answers, one.labels, dev)[None] for one in (ours, theirs)]
    values = [one.metrics["dev"]["metrics"][task][metric] for one in (facts, alone)]
    if None in values:
        return ""
    found = difference([values[0]], [values[1]], *drawn)
    sure = abs(found.mean) > found.half_width
    helped = better(ours.task, values[0], values[1])
    told = ("sharing helped" if helped else "sharing hurt") if sure else "sharing made no difference that can be told"
    return f"{told} ({found.mean:+.3f} ± {found.half_width:.3f} against {alone.name}, one seed each)"
