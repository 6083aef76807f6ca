"""The report of a comparison: what runs do better or worse than the first, and on which examples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from manyheads.errors import UserError
from manyheads.reports.changes import (
    ChangedExample,
    MetricChange,
    changed_settings,
    comparable_tasks,
    example_changes,
    metric_changes,
)
from manyheads.reports.facts import RunFacts
from manyheads.reports.figures.comparison import draw_changes, draw_learning_curves
from manyheads.reports.figures.style import figure_style
from manyheads.reports.finding import Finding
from manyheads.reports.pages.page import Report, Section, example_texts, make_table, render_report
from manyheads.reports.task_predictions import TaskPredictions
from manyheads.studies.tables import MARKS, number

# column titles that the page uses; a run with such a name gets another label
TITLES = ("run", "it", "task", "metric", "difference", "setting", "text", "text 1", "text 2", "true", "by")
CURVES_CAPTION = "Primary metric on dev against the examples of all tasks: equal work, whatever the order of tasks."
CHANGES_CAPTION = (
    "Difference with its 95 % interval over dev examples. Green is better, orange worse, grey not distinguishable."
)
Changes = dict[str, list[MetricChange]]  # label of a run → its changes against the first run


def comparison_report(folders: list[Path]) -> Report:
    """The page of two or more runs, each against the first."""
    runs = _open_runs(folders)
    reference, candidates = runs[0], runs[1:]
    changes: Changes = {}
    tasks: dict[str, list[str]] = {}
    notes: list[str] = []
    for candidate in candidates:
        tasks[candidate.label], missing = comparable_tasks(reference, candidate)
        changes[candidate.label] = metric_changes(reference, candidate, tasks[candidate.label])
        notes += missing
    if not any(tasks.values()):
        message = f"{reference.folder}: nothing to compare: {' '.join(notes)}"
        raise UserError(message, code="nothing-to-compare")
    with figure_style():
        sections = [
            _metric_section(changes, reference),
            _curve_section(runs),
            _settings_section(reference, candidates),
        ]
        for candidate in candidates:
            for task in tasks[candidate.label]:
                sections.append(_example_section(reference, candidate, task, len(candidates) > 1))
    for facts in runs:
        notes += facts.notes
    title = " and ".join(facts.label for facts in runs) + ": comparison of runs"
    return render_report("comparison.html.jinja", title, sections, notes, _lead(runs, changes))


def _open_runs(folders: list[Path]) -> list[RunFacts]:
    runs: list[RunFacts] = []
    opened: set[Path] = set()
    for folder in folders:
        if folder.resolve() in opened:
            raise UserError(f"{folder}: named twice; a run does not differ from itself.", code="repeated-run")
        opened.add(folder.resolve())
        runs.append(RunFacts(folder))
    for facts in runs:
        if not facts.finished:
            message = f"{facts.folder}: not finished, so there is nothing to compare yet."
            raise UserError(message, code="unfinished-run")
    _set_labels(runs)
    return runs


def _set_labels(runs: list[RunFacts]) -> None:
    """Runs of equal names get the names of their folders, and numbers where those are equal too."""
    names = [facts.name for facts in runs]
    for facts in runs:
        if names.count(facts.name) > 1:
            facts.label = f"{facts.folder.parent.name}/{facts.name}"
        if facts.label in TITLES:
            facts.label = f"run {facts.label}"
    labels = [facts.label for facts in runs]
    for index, facts in enumerate(runs, 1):
        if labels.count(facts.label) > 1:
            facts.label = f"{facts.label} ({index})"


def _lead(runs: list[RunFacts], changes: Changes) -> dict[str, Any]:
    reference = runs[0]
    findings = []
    for label, run_changes in changes.items():
        undecided = []
        for change in run_changes:
            if change.verdict == "not distinguishable":
                undecided.append(change.task)
                continue
            text = f"{label} is {change.verdict} than {reference.label} on {change.task}: {_difference(change)}."
            findings.append(Finding(text, "metrics"))
        if undecided:
            text = f"{label} and {reference.label} are not distinguishable on {', '.join(undecided)}."
            findings.append(Finding(text, "metrics"))
    rows = []
    for facts in runs:
        rows.append(
            {
                "run": facts.label,
                "overall": facts.metrics["dev"]["overall"],
                "of tasks": ", ".join(facts.metrics["dev"]["metrics"]),
                "seed": facts.run.recipe.seed,
            }
        )
    return {"reference": reference.label, "headline": make_table(rows, "headline"), "findings": findings}


def _metric_section(changes: Changes, reference: RunFacts) -> Section:
    section = Section("metrics", "Metrics")
    rows = []
    for label, run_changes in changes.items():
        for change in run_changes:
            row: dict[str, Any] = {"task": change.task, "metric": change.metric, reference.label: change.before}
            if len(changes) > 1:
                row = {"run": label, **row, "it": change.after}
            else:
                row[label] = change.after
            row["difference"] = f"{_difference(change)} {MARKS[change.verdict]}"
            rows.append(row)
    section.table(rows, "metric-table")
    section.figure(draw_changes(changes), "changes", f"Differences from {reference.label}", CHANGES_CAPTION)
    return section


def _curve_section(runs: list[RunFacts]) -> Section:
    section = Section("training", "Training")
    section.figure(draw_learning_curves(runs), "curves", "Dev metrics of all runs", CURVES_CAPTION)
    return section


def _settings_section(reference: RunFacts, candidates: list[RunFacts]) -> Section:
    section = Section("settings", "What differs in the recipes")
    for index, candidate in enumerate(candidates, 1):
        rows = changed_settings(reference, candidate)
        section.table(rows, f"settings-{index}")
        if not rows:
            section.text(f"{reference.label} and {candidate.label} have the same settings.")
    return section


def _example_section(before: RunFacts, after: RunFacts, task: str, several_runs: bool) -> Section:
    """Which examples of a task changed, in which direction."""
    predictions = after.predictions[task]
    key, title = f"examples-{task}", f"{task}: which examples changed"
    if several_runs:
        key, title = f"{key}-{after.label}", f"{title} ({after.label})"
    section = Section(re.sub(r"[^\w-]", "-", key), title)
    directions = example_changes(before.predictions[task], predictions)
    improved, worsened = _direction_words(predictions)
    better, worse = directions["better"].count, directions["worse"].count
    section.text(f"Of {len(predictions.labels):,} examples {better:,} {improved}, {worse:,} {worsened}.")
    for name, direction in directions.items():
        if direction.largest:
            section.heading(f"for the {name}")
            rows = [_example_row(example, before.label, after.label) for example in direction.largest]
            section.table(rows, f"{name}-{section.key}")
    return section


def _direction_words(predictions: TaskPredictions) -> tuple[str, str]:
    if predictions.is_regression:
        return "moved nearer by more than a tenth of the scale", "moved away as far"
    if predictions.is_multi_label:
        return "have more correct classes", "have fewer"
    return "became correct", "became wrong"


def _example_row(example: ChangedExample, before: str, after: str) -> dict[str, object]:
    return {
        **example_texts(example.texts),
        "true": example.true,
        before: example.before,
        after: example.after,
        "by": example.size,
    }


def _difference(change: MetricChange) -> str:
    sign = "−"
    if change.difference.mean >= 0:
        sign = "+"
    return f"{sign}{number(abs(change.difference.mean))} ± {number(change.difference.half_width)}"
