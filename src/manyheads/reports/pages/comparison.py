"""The report of a comparison: what runs do better or worse than the first of them, and on which examples."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from manyheads.errors import UserError
from manyheads.reports.changes import (
    Changed,
    Direction,
    MetricChange,
    changed_settings,
    comparable,
    example_changes,
    metric_changes,
)
from manyheads.reports.facts import RunFacts
from manyheads.reports.figures.style import FAINT, colour, line, short, styled
from manyheads.reports.figures.training import legend_below, side_by_side
from manyheads.reports.pages.page import FigureBook, Section, Text, table, write_page
from manyheads.studies.tables import MARKS, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = ("run", "it", "task", "metric", "difference", "setting", "text", "text 1", "text 2", "true", "by")
CURVES = "Primary metric on dev against examples of all tasks together: the same work, whatever the order of tasks."
INTERVALS = "Difference with its 95 % interval over dev examples. Green is better, orange worse, grey cannot be told."


def compare_report(folders: list[Path]) -> tuple[str, FigureBook]:
    """The page of two runs or more, each against the first."""
    twice = next((one for one in folders if [other.resolve() for other in folders].count(one.resolve()) > 1), None)
    if twice is not None:
        raise UserError(f"{twice}: named twice; a run does not differ from itself.")
    every = [RunFacts(folder) for folder in folders]
    for facts in every:
        if not facts.finished:
            raise UserError(f"{facts.folder}: not finished, so there is nothing to compare yet.")
    _tell_apart(every)
    first, others = every[0], every[1:]
    book = FigureBook()
    notes: list[str] = []
    changes = {}
    tasks = {}
    for other in others:
        tasks[other.label], told = comparable(first, other)
        notes += told
        changes[other.label] = metric_changes(first, other, tasks[other.label])
    if not any(tasks.values()):
        raise UserError(f"{first.folder}: nothing to compare: {' '.join(notes)}")
    with styled():
        sections = [
            _metrics(changes, first, book),
            _curves(every, book),
            _settings(first, others),
            *(section for other in others for section in _examples(first, other, tasks[other.label], len(others) > 1)),
        ]
        title = " and ".join(facts.label for facts in every) + ": comparison of runs"
        page = write_page(title, _lead(every, changes), sections, [*notes, *(n for one in every for n in one.notes)])
    return page, book


def _tell_apart(every: list[RunFacts]) -> None:
    """Runs of the same name are told apart by their folders."""
    names = [facts.name for facts in every]
    for facts in every:
        if names.count(facts.name) > 1:
            facts.label = f"{facts.folder.parent.name}/{facts.name}"
        if facts.label in TITLES:
            facts.label = f"run {facts.label}"
    labels = [facts.label for facts in every]
    for number_, facts in enumerate(every, 1):
        if labels.count(facts.label) > 1:
            facts.label = f"{facts.label} ({number_})"


def _lead(every: list[RunFacts], changes: dict[str, list[MetricChange]]) -> list[str]:
    first = every[0]
    lines = []
    for name, some in changes.items():
        told = [one for one in some if one.verdict != "not distinguishable"]
        lines += [f"{name} is {one.verdict} than {first.label} on {one.task}: {_change(one)}." for one in told]
        alike = [one.task for one in some if one.verdict == "not distinguishable"]
        if alike:
            lines.append(f"{name} and {first.label} are not distinguishable on {', '.join(alike)}.")
    items = "".join(f'<li>{escape(line)} <a href="#metrics">see</a></li>' for line in lines)
    overall = [
        {
            "run": facts.label,
            "overall": facts.metrics["dev"]["overall"],
            "of tasks": ", ".join(facts.metrics["dev"]["metrics"]),
            "seed": facts.run.recipe.seed,
        }
        for facts in every
    ]
    return [
        f'<p class="soft">Every run against {escape(first.label)}, on the same dev examples. One run each: nothing is '
        "known of how much seeds vary; a study says that.</p>",
        table(overall, "headline"),
        f'<div class="look" id="look"><strong>What was found</strong><ul>{items}</ul></div>',
    ]


def _metrics(changes: dict[str, list[MetricChange]], first: RunFacts, book: FigureBook) -> Section:
    section = Section("metrics", "Metrics")
    section.table(
        [
            {
                **({"run": name} if len(changes) > 1 else {}),
                "task": one.task,
                "metric": one.metric,
                first.label: one.before,
                ("it" if len(changes) > 1 else name): one.after,
                "difference": f"{_change(one)} {MARKS[one.verdict]}",
            }
            for name, some in changes.items()
            for one in some
        ],
        "metric-table",
    )
    drawn = _draw_changes(changes)
    return section.figure(drawn, "changes", f"Differences from {first.label}", INTERVALS, book)


def _draw_changes(changes: dict[str, list[MetricChange]]) -> Figure:
    rows = [(name, one) for name, some in changes.items() for one in some]
    figure, axes = side_by_side(height=0.8 + 0.3 * len(rows))
    shades = {"better": colour(2), "worse": colour(1), "not distinguishable": FAINT}
    axes.axvline(0, color=FAINT, linestyle=":")
    for location, (_, one) in enumerate(rows):
        axes.errorbar(
            *(one.difference.mean, location),
            xerr=one.difference.half_width,
            fmt="o",
            capsize=2,
            color=shades[one.verdict],
        )
    who = {name: f"{short(name, 20)}: " if len(changes) > 1 else "" for name in changes}
    names = [f"{who[name]}{short(one.task)} {one.metric}" for name, one in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("difference")
    return figure


def _curves(every: list[RunFacts], book: FigureBook) -> Section:
    """Dev metrics of all runs, a panel per task."""
    section = Section("training", "Training")
    tasks = list(dict.fromkeys(task for facts in every for task in facts.predictions))
    figure, panels = side_by_side(len(tasks))
    for task, axes in zip(tasks, panels, strict=True):
        for index, facts in enumerate(every):
            metric = facts.primary(task)
            points = [
                (sum(one["seen"].values()), one["metrics"][task].get(metric))
                for one in facts.events("evaluate")
                if task in one["metrics"]
            ]
            points = [(seen, value) for seen, value in points if value is not None]
            if points:
                axes.plot(
                    *zip(*points, strict=True), marker="o", markersize=3.5, label=short(facts.label, 30), **line(index)
                )
        axes.set_title(short(task, 20))
        axes.set_xlabel("examples seen")
    legend_below(figure, 2)
    return section.figure(figure, "curves", "Dev metrics of all runs", CURVES, book)


def _settings(first: RunFacts, others: list[RunFacts]) -> Section:
    section = Section("settings", "What differs in the recipes")
    for number_, other in enumerate(others, 1):
        found = changed_settings(first, other)
        if found:
            section.table(found, f"settings-{number_}")
        else:
            section.text(f"{first.label} and {other.label} have the same settings.")
    return section


def _examples(before: RunFacts, after: RunFacts, tasks: list[str], several: bool) -> list[Section]:
    """Which examples changed, in which direction."""
    found = []
    for task in tasks:
        ours, theirs = after.predictions[task], before.predictions[task]
        key = f"examples-{task}" + (f"-{after.label}" if several else "")
        title = f"{task}: which examples changed" + (f" ({after.label})" if several else "")
        section = Section("".join(c if c.isalnum() or c in "-_" else "-" for c in key), title)
        changed = example_changes(theirs, ours)
        kinds = {"regression": ("came nearer by more than a tenth of the scale", "went as far away")}
        kinds["multi-label"] = ("have more right classes", "have fewer")
        better, worse = kinds.get(ours.task.kind, ("became right", "became wrong"))
        counts = f"{changed['better'].count:,} {better}, {changed['worse'].count:,} {worse}"
        section.text(f"Of {len(ours.labels):,} examples {counts}.")
        for way, direction in changed.items():
            _direction(section, way, direction, before.label, after.label)
        found.append(section)
    return found


def _direction(section: Section, way: str, direction: Direction, before: str, after: str) -> None:
    if direction.worst:
        section.heading(f"for the {way}")
        section.table([_changed_row(one, before, after) for one in direction.worst], f"{way}-{section.key}")


def _changed_row(one: Changed, before: str, after: str) -> dict[str, object]:
    several = len(one.texts) > 1
    texts = {f"text {location}" if several else "text": Text(text[:400]) for location, text in enumerate(one.texts, 1)}
    return {**texts, "true": one.true, before: one.before, after: one.after, "by": one.size}


def _change(one: MetricChange) -> str:
    sign = "+" if one.difference.mean >= 0 else "−"
    return f"{sign}{number(abs(one.difference.mean))} ± {number(one.difference.half_width)}"
