"""What a reader should look at first: sentences that follow from the data, each with the section that shows it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyheads.errors import UserError
from manyheads.inference.intervals import metric_intervals
from manyheads.parts.metrics import better, measured_by, primary, worse_by
from manyheads.reports.conflicts import ALL_SHARED, MIN_STEPS, read_conflicts
from manyheads.reports.facts import RunFacts
from manyheads.reports.sharing import effect_of_sharing
from manyheads.reports.task_predictions import TaskPredictions

OVER_FIT_RATIO, OVER_FIT_RISE = 1.1, 0.02  # a dev loss this many times its minimum, and this far above it, over-fits
FORGOTTEN = 0.02  # a primary metric this far behind its best, and farther than chance explains, was forgotten
FEW_EPOCHS = 0.5  # below this share of an epoch the model never saw most of a task's examples


@dataclass(frozen=True)
class Finding:
    """A sentence, and the section that shows it."""

    text: str
    section: str


@dataclass(frozen=True)
class Headline:
    """A task's primary metric on dev with its 95 % interval over dev examples, and the effect of sharing on it."""

    task: str
    metric: str
    value: float | None
    interval: str  # '' where there is none
    examples: int
    sharing: str  # '' where no sibling run trained the task alone on the same dev examples


def headlines(facts: RunFacts) -> list[Headline]:
    headlines = []
    for task_name, predictions in facts.predictions.items():
        metric = primary(predictions.task)
        value = facts.metrics["dev"]["metrics"][task_name][metric]
        interval = _interval(predictions, metric, value)
        sharing = effect_of_sharing(facts, task_name)
        headlines.append(Headline(task_name, metric, value, interval, len(predictions.labels), sharing))
    return headlines


def find_problems(facts: RunFacts) -> list[Finding]:
    """Most important first; empty where nothing stands out."""
    return [
        *_constant_predictions(facts),
        *_over_fitting(facts),
        *_forgetting(facts),
        *_rarely_seen(facts),
        *_conflicting(facts),
    ]


def nothing_found(facts: RunFacts) -> str:
    """What was checked without a finding."""
    checked = ["no task always predicts the same class"]
    if len(facts.events("evaluate")) > 1:
        checked.append("none over-fits or was better before")
    if len(facts.run.recipe.tasks) > 1:
        checked.append("the model saw every task")
        if len(facts.events("conflicts")) >= MIN_STEPS:
            checked.append("no gradients conflict")
    return "Nothing stands out: " + ", ".join(checked) + "."


def _interval(predictions: TaskPredictions, metric: str, value: float | None) -> str:
    """'0.712 to 0.735'; '' where there is no interval."""
    task = measured_by(predictions.task, metric)
    interval = metric_intervals(task, {metric: value}, predictions.predictions, predictions.labels)[metric]
    if interval is None:
        return ""
    return f"{interval[0]:.3f} to {interval[1]:.3f}"


def _constant_predictions(facts: RunFacts) -> list[Finding]:
    findings = []
    for task_name, predictions in facts.predictions.items():
        if predictions.labels.ndim != 1 or predictions.is_regression or len(predictions.labels) < 2:
            continue
        predicted = np.unique(predictions.predicted_labels)
        if len(predicted) == 1 and len(np.unique(predictions.labels)) > 1:
            class_name = predictions.class_names[int(predicted[0])]
            text = f"{task_name} always predicts {class_name}: it has learnt nothing yet."
            findings.append(Finding(text, f"task-{task_name}"))
    return findings


def _over_fitting(facts: RunFacts) -> list[Finding]:
    findings = []
    for task_name in facts.run.recipe.tasks:
        points = facts.points("evaluate", "losses", task_name)
        if len(points) < 2:
            continue
        step, lowest = min(points, key=lambda point: point[1])
        last = points[-1][1]
        if last > max(OVER_FIT_RATIO * lowest, lowest + OVER_FIT_RISE):
            minimum = f"its dev loss was lowest ({lowest:.3f}) at step {step:,}"
            text = f"{task_name} over-fits: {minimum} and is {last:.3f} at the last evaluation."
            findings.append(Finding(text, "losses"))
    return findings


def _forgetting(facts: RunFacts) -> list[Finding]:
    findings = []
    for task_name, task in facts.tasks.items():
        metric = primary(task)
        evaluations = facts.evaluations(task_name)
        if len(evaluations) < 2:
            continue
        best_step, best = evaluations[0]["step"], evaluations[0]["metrics"][task_name][metric]
        for record in evaluations[1:]:
            value = record["metrics"][task_name][metric]
            if better(task, value, best):
                best_step, best = record["step"], value
        last = evaluations[-1]["metrics"][task_name][metric]
        if best is None or last is None:
            continue
        chance = 1 / max(1, facts.events("evaluate")[-1]["examples"].get(task_name, 1)) ** 0.5
        if worse_by(task, last, best) > max(FORGOTTEN, chance):
            before = f"its {metric} was {best:.3f} at step {best_step:,}"
            text = f"{task_name} was better before: {before} and is {last:.3f} at the last evaluation."
            findings.append(Finding(text, "dev-metrics"))
    return findings


def _rarely_seen(facts: RunFacts) -> list[Finding]:
    if not facts.finished:
        return []
    findings = []
    examples_seen = facts.metrics.get("examples_seen", {})
    for task_name, task in facts.tasks.items():
        epochs = examples_seen.get(task_name, 0) / max(1, task.train_examples)
        if task_name in facts.predictions and epochs < FEW_EPOCHS:
            text = f"{task_name} was starved: the model saw {epochs:.0%} of its train examples."
            findings.append(Finding(text, "examples-seen"))
    return findings


def _conflicting(facts: RunFacts) -> list[Finding]:
    try:
        conflicts = read_conflicts(facts.run)
    except UserError:
        return []
    comparisons = sum(map(len, conflicts.pairs.values()))
    findings = []
    for pair, groups in conflicts.pairs.items():
        agreement = groups.get(ALL_SHARED)
        if agreement is not None and agreement.direction(comparisons) < 0:
            text = f"The gradients of {pair} conflict: their mean cosine is {agreement.cosine:+.2f}."
            findings.append(Finding(text, "conflict"))
    return findings
