"""What a reader should look at first: sentences that follow from the data, each with the section that shows it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyheads.errors import UserError
from manyheads.parts.metrics import better, primary, worse_by
from manyheads.reports.conflicts import ALL_SHARED, MIN_STEPS, read_conflicts
from manyheads.reports.facts import RunFacts
from manyheads.reports.finding import Finding
from manyheads.reports.headlines import Headline
from manyheads.reports.weak_tasks import below_probe, constant_tags, constant_tasks, empty_predictions, majority_level

OVER_FIT_RATIO, OVER_FIT_RISE = 1.1, 0.02  # a dev loss this many times its minimum, and this far above it, over-fits
FORGOTTEN = 0.02  # a primary metric this far behind its best, and farther than chance explains, was forgotten
CHANGED, COLLAPSED = 0.5, 0.25  # rank correlation of sentences' cosines before and after; docs/report.md has figures
FEW_EPOCHS = 0.5  # below this share of an epoch the model never saw most of a task's examples
LAST_PART = 0.25  # of the steps: a loss that fell within them by STILL_FALLING of itself had not come to rest
STILL_FALLING = 0.05


def find_problems(facts: RunFacts, task_headlines: Sequence[Headline]) -> list[Finding]:
    """Most important first; empty where nothing stands out."""
    constant = [*constant_tasks(facts), *constant_tags(facts), *empty_predictions(facts)]
    told = {finding.section for finding in constant}  # a constant is at majority level: once is enough
    varying = [finding for finding in majority_level(facts, task_headlines) if finding.section not in told]
    return [
        *constant,
        *varying,
        *below_probe(facts, task_headlines),
        *_over_fitting(facts),
        *_forgetting(facts),
        *_still_falling(facts),
        *_rarely_seen(facts),
        *_conflicting(facts),
        *_changed_space(facts),
    ]


def nothing_found(facts: RunFacts) -> str:
    """What was checked without a finding."""
    checked = ["no task predicts always the same, or nothing"]
    if "majority" in facts.metrics:
        checked.append("each is better than a constant prediction")
    if "frozen" in facts.metrics:
        checked.append("none is below its frozen probe")
    if len(facts.events("evaluate")) > 1:
        checked.append("none over-fits, was better before or was still falling at the end")
    if len(facts.run.recipe.tasks) > 1:
        checked.append("the model saw every task")
        if len(facts.events("conflicts")) >= MIN_STEPS:
            checked.append("no gradients conflict")
    if facts.sentence_spaces:
        checked.append("sentences lie to each other much as before training")
    return "Nothing stands out: " + ", ".join(checked) + "."


def _over_fitting(facts: RunFacts) -> list[Finding]:
    findings = []
    for task_name in facts.run.recipe.tasks:
        points = facts.points("evaluate", "losses", task_name)
        if len(points) < 2:
            continue
        if facts.finished and _passes(facts, task_name) < 1:  # what was not seen twice is not learnt by heart
            continue
        step, lowest = min(points, key=lambda point: point[1])
        last = points[-1][1]
        if last > max(OVER_FIT_RATIO * lowest, lowest + OVER_FIT_RISE):
            minimum = f"its dev loss was lowest ({lowest:.3f}) at step {step:,}"
            text = f"{task_name} over-fits: {minimum} and is {last:.3f} at the last evaluation."
            findings.append(Finding(text, "losses"))
    return findings


def _passes(facts: RunFacts, task_name: str) -> float:
    """How often the model saw a task's train examples, in a finished run."""
    examples_seen = facts.metrics.get("examples_seen", {}).get(task_name, 0)
    return float(examples_seen) / max(1, facts.tasks[task_name].train_examples)


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


def _still_falling(facts: RunFacts) -> list[Finding]:
    """Tasks whose loss is lowest at the last evaluation, and fell markedly within the last quarter of the steps.

    The loss where that quarter begins lies on the line between the two evaluations around it. A run that ended before
    its last planned step, because nothing improved, had budget left.
    """
    if not facts.finished or facts.steps_trained < facts.steps_planned:
        return []
    findings = []
    for task_name in facts.run.recipe.tasks:
        points = [point for point in facts.points("evaluate", "losses", task_name) if point[0] > 0]
        if len(points) < 2:
            continue
        steps, losses = np.array(points, dtype=np.float64).T
        last = losses[-1]
        earlier = float(np.interp((1 - LAST_PART) * steps[-1], steps, losses))
        if last <= losses.min() and earlier - last > STILL_FALLING * last:
            fall = f"its loss went from {earlier:.3f} to {last:.3f} in the last quarter of the steps, its lowest"
            text = f"{task_name} was still falling when training ended: {fall}. Train longer (`training.epochs`)."
            findings.append(Finding(text, "losses"))
    return findings


def _rarely_seen(facts: RunFacts) -> list[Finding]:
    if not facts.finished:
        return []
    starved: dict[str, float] = {}
    for task_name in facts.measured_tasks:
        passes = _passes(facts, task_name)
        if passes < FEW_EPOCHS:
            starved[task_name] = passes
    if len(starved) == len(facts.measured_tasks) > 1:
        fewest, most = min(starved.values()), max(starved.values())
        shares = f"{most:.0%}" if f"{fewest:.0%}" == f"{most:.0%}" else f"{fewest:.0%} to {most:.0%}"
        text = f"All tasks were starved: the model saw {shares} of their train examples. Give it a larger budget."
        return [Finding(text, "examples-seen")]
    findings = []
    for task_name, passes in starved.items():
        text = f"{task_name} was starved: the model saw {passes:.0%} of its train examples."
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


def _changed_space(facts: RunFacts) -> list[Finding]:
    """Whether vectors of the trained encoder can stand in for those of the first, in search and clustering."""
    spaces = list(facts.sentence_spaces.values())
    if not spaces:
        return []
    agreement = float(np.mean([space.rank_correlation for space in spaces]))
    if agreement >= CHANGED:
        return []
    happened = "collapsed" if agreement < COLLAPSED else "changed"
    remedy = "`regularise: anchor` keeps the space"
    if any(regulariser.name == "anchor" for regulariser in facts.run.recipe.regularise):
        remedy = "a larger weight of `anchor` keeps more of the space"
    figure = f"cosines of dev sentences before and after have a rank correlation of {agreement:.2f}"
    text = f"The sentence space {happened}: {figure}. Do not use best/ for search as it is; {remedy}."
    return [Finding(text, "representation")]
