"""The report of one run."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

from manyheads.console import duration
from manyheads.errors import UserError
from manyheads.reports.conflicts import EVERYWHERE, conflict_table, describe_conflicts, read_conflicts
from manyheads.reports.errors import Error, Slice, cut_words, slices, suspicious_labels, worst_errors
from manyheads.reports.facts import RunFacts, TaskPredictions
from manyheads.reports.figures import predictions as draw_answers
from manyheads.reports.figures import training as draw_training
from manyheads.reports.figures.conflicts import PAIRS, conflict_map
from manyheads.reports.figures.representation import clouds, draw_cloud
from manyheads.reports.figures.style import styled
from manyheads.reports.findings import Finding, findings, headlines, nothing_found
from manyheads.reports.pages.page import FigureBook, Section, Text, table, write_page


def run_report(folder: Path) -> tuple[str, FigureBook]:
    """The page of a run, and its figures."""
    facts = RunFacts(folder)
    book = FigureBook()
    with styled():
        sections = [
            _training(facts, book),
            _conflict(facts, book),
            *(_task(facts, name, one, book) for name, one in facts.predictions.items()),
            _representation(facts, book),
            *(_errors(facts, name, one) for name, one in facts.predictions.items()),
            _recipe(facts),
        ]
        page = write_page(f"{facts.name}: report of a run", _lead(facts), sections, _notes(facts))
    return page, book


def _lead(facts: RunFacts) -> list[str]:
    """What was trained on what, how good it is, and what to look at."""
    recipe = facts.run.recipe
    rows = ", ".join(f"{name} ({task.rows:,})" for name, task in facts.tasks.items()) or ", ".join(recipe.tasks)
    done = max((record["step"] for record in facts.log), default=0)
    seconds = max((record["seconds"] for record in facts.log), default=0.0)
    state = "" if facts.finished else f" It is not finished: {done:,} of {facts.steps:,} steps are done."
    if not facts.finished:
        state += f" If it was stopped, `manyheads resume {facts.folder}` goes on."
    lead = [
        f'<p class="soft">One encoder ({escape(Path(recipe.encoder.name).name)}), {len(recipe.tasks)} '
        f"task{'s' if len(recipe.tasks) > 1 else ''}: {escape(rows)} train examples. {done:,} steps in "
        f"{duration(seconds)}, seed {recipe.seed}.{escape(state)}</p>"
    ]
    heads = headlines(facts)
    shown = [
        {
            "task": one.task,
            "metric": one.metric,
            "dev": one.value,
            "95 % interval": one.interval or "–",
            "examples": one.examples,
        }
        for one in heads
    ]
    if not facts.finished and facts.events("evaluate"):
        lead.append(table(_latest(facts), "headline"))
    if shown:
        lead.append(table(shown, "headline"))
        lead.append(
            f'<p class="soft">Overall score {facts.metrics["dev"]["overall"]:.3f}. Intervals are over dev examples.</p>'
        )
    told = [Finding(f"{one.task}: {one.shared}.", "headline") for one in heads if one.shared] + findings(facts)
    if facts.finished and not told:
        calm = escape(nothing_found(facts))
        lead.append(f'<div class="look" id="look"><strong>What to look at</strong><p>{calm}</p></div>')
    if told:
        items = "".join(f'<li>{escape(one.text)} <a href="#{one.section}">see</a></li>' for one in told)
        lead.append(f'<div class="look" id="look"><strong>What to look at</strong><ul>{items}</ul></div>')
    return lead


def _latest(facts: RunFacts) -> list[dict[str, object]]:
    """Of a run that goes on: its last evaluation, on the part of dev that is looked at while training."""
    last = facts.events("evaluate")[-1]
    return [
        {
            "task": task,
            "metric": facts.primary(task),
            f"dev at step {last['step']:,}": metrics.get(facts.primary(task)),
            "examples": last["examples"].get(task, 0),
        }
        for task, metrics in last["metrics"].items()
    ]


# figure → title for those who listen, caption for those who look
TRAINING = {
    "dev-metrics": ("Dev metrics against step", "Primary metrics on dev. Dotted lines: a new phase begins."),
    "losses": (
        "Losses against step",
        "Training loss (means over stretches of steps) and dev loss: log loss, or squared error on the scale of "
        "training, whatever the task's own loss is.",
    ),
    "examples-seen": ("Order of tasks", "Which tasks the examples were of, over time."),
    "rates": ("Learning rates", "Learning rates by group of parameters."),
    "weights": ("Task weights", "What losses were multiplied with, and what gradient surgery made of it."),
    "gradients": (
        "Gradients and speed",
        "Length of the gradient before clipping (dotted: what it is clipped to); optimizer steps per second.",
    ),
}
CLASSES = {
    "confusion": (
        "confusion matrix",
        "Examples by true class (rows) and guessed one (columns), and their share of the true class.",
    ),
    "curves": (
        "ROC and precision-recall curves",
        "Of each class against the rest; of two, of the second; of many, of the six largest.",
    ),
    "calibration": ("calibration", "On the dotted line answers are right as often as they are confident."),
    "ordinal": ("size of errors", "How many classes guesses are off."),
}
SCATTER = "Predicted against true: each point is a dev example."
NUMBERS = "How far off answers are, and the distributions of true and predicted values."
CONFUSED = 20  # pairs of classes that are listed at the most
COSINES = "Cosine of two tasks' gradients, layer by layer: orange where they fight, purple where they agree."
PLANE = "Dev examples in the plane of their first two principal components (share of variance), coloured by label."


def _training(facts: RunFacts, book: FigureBook) -> Section:
    section = Section("training", "Training")
    drawn = (
        draw_training.dev_metrics,
        draw_training.losses,
        draw_training.examples_seen,
        draw_training.rates,
        draw_training.task_weights,
        draw_training.gradients_and_speed,
    )
    for (key, (title, caption)), draw in zip(TRAINING.items(), drawn, strict=True):
        section.figure(draw(facts), key, title, caption, book)
    return section


def _conflict(facts: RunFacts, book: FigureBook) -> Section:
    section = Section("conflict", "Do the tasks fight?")
    try:
        measured = read_conflicts(facts.run)
    except UserError:
        return section
    section.figure(conflict_map(facts), "conflict-map", "Gradient cosines", COSINES, book)
    if len(measured.pairs) <= PAIRS:
        section.table(conflict_table(measured), "conflict-table")
    else:  # a column for each pair would be too wide
        section.text(f"The map shows the {PAIRS} pairs that fight or help most, of {len(measured.pairs)}.", "soft")
        section.table(
            [
                {"tasks": pair, "mean cosine": one.cosine, "steps against": f"{one.against:.0%}"}
                for pair, groups in measured.pairs.items()
                if (one := groups.get(EVERYWHERE)) is not None
            ],
            "conflict-table",
        )
    for line in describe_conflicts(measured):
        section.text(line)
    return section


def _task(facts: RunFacts, name: str, one: TaskPredictions, book: FigureBook) -> Section:
    section = Section(f"task-{name}", f"Task {name}")
    scores = facts.metrics["dev"]["metrics"][name]
    section.table([{"metric": metric, "dev": value} for metric, value in scores.items()], f"metrics-{name}")
    if one.task.kind == "regression":
        drawn = draw_answers.predicted_against_true(one)
        section.figure(drawn, f"scatter-{name}", f"{name}: predicted against true", SCATTER, book)
        drawn = draw_answers.error_distributions(one)
        return section.figure(drawn, f"distributions-{name}", f"{name}: errors and distributions", NUMBERS, book)
    several = one.task.kind == "multi-label"
    figures = {
        "confusion": None if several else draw_answers.confusion(one),
        "curves": draw_answers.curves(one),
        "calibration": draw_answers.calibration(one),
        "ordinal": draw_answers.ordinal_errors(one) if one.task.kind == "ordinal" else None,
    }
    for key, (title, caption) in CLASSES.items():
        section.figure(figures[key], f"{key}-{name}", f"{name}: {title}", caption, book)
    section.table(_per_class(one), f"classes-{name}")
    if not several and len(one.task.labels.names) > draw_answers.WRITTEN:
        section.heading("Classes that are taken for one another most")
        section.table(_most_confused(one), f"confused-{name}")
    return section


def _per_class(one: TaskPredictions) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for index, name in enumerate(one.task.labels.names):
        if one.labels.ndim == 2:
            is_true, is_guessed = one.labels[:, index] == 1, one.guesses[:, index] == 1
        else:
            is_true, is_guessed = one.labels == index, one.guesses == index
        hit, guessed, true = (is_true & is_guessed).sum(), is_guessed.sum(), is_true.sum()
        rows.append(
            {
                "class": name,
                "precision": float(hit / guessed) if guessed else None,
                "recall": float(hit / true) if true else None,
                "examples": int(true),
            }
        )
    return rows


def _most_confused(one: TaskPredictions) -> list[dict[str, object]]:
    """What a large confusion matrix has no room to say."""
    counts = draw_answers.confusion_counts(one)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    names = one.task.labels.names
    wrong = [(int(counts[i, j]), i, j) for i, j in np.ndindex(*counts.shape) if i != j and counts[i, j]]
    return [
        {"true": names[i], "guessed": names[j], "examples": count, "share of the true class": float(shares[i, j])}
        for count, i, j in sorted(wrong, reverse=True)[:CONFUSED]
    ]


def _representation(facts: RunFacts, book: FigureBook) -> Section:
    section = Section("representation", "Where examples lie")
    if not (facts.folder / "best").is_dir() or not facts.predictions:
        return section
    for name, cloud in clouds(facts).items():
        drawn = draw_cloud(facts.predictions[name], cloud)
        section.figure(drawn, f"pca-{name}", f"{name}: embeddings before and after", f"{name}. {PLANE}", book)
    return section


def _errors(facts: RunFacts, name: str, one: TaskPredictions) -> Section:
    section = Section(f"errors-{name}", f"Where {name} is wrong")
    for kind, errors in worst_errors(one).items():
        section.heading(kind)
        section.table([error_row(one, error) for error in errors])
    seeds = facts.same_but_for_the_seed(name)
    doubtful = suspicious_labels(one, seeds)
    if doubtful:
        who = "the model contradicts" if len(seeds) == 1 else f"the models of {len(seeds)} seeds contradict"
        section.heading(f"Labels to look at: {who} them with confidence")
        section.table([error_row(one, error) for error in doubtful], f"suspicious-{name}")
    found = slices(one, cut_words(one.texts, facts.tokenizer) if facts.tokenizer else None)
    if found:
        names = {"regression": "mean error", "multi-label": "all classes right"}
        measure = names.get(one.task.kind, "accuracy")
        section.heading("Slices of dev")
        section.table(
            [{"slice": each.name, "examples": each.examples, measure: _with_interval(each)} for each in found],
            f"slices-{name}",
        )
    return section


def _with_interval(one: Slice) -> str:
    return f"{one.value:.3f}" if one.examples < 2 else f"{one.value:.3f} ({one.low:.3f} to {one.high:.3f})"


def error_row(one: TaskPredictions, error: Error) -> dict[str, object]:
    several = len(error.texts) > 1
    texts = {f"text {number}" if several else "text": Text(_cut(text)) for number, text in enumerate(error.texts, 1)}
    strength = "off by" if one.task.kind == "regression" else "confidence"
    return {**texts, "true": error.true, "answered": error.answered, strength: error.strength}


def _cut(text: str, most: int = 400) -> str:
    return text if len(text) <= most else f"{text[:most]} …"


def _recipe(facts: RunFacts) -> Section:
    section = Section("recipe", "Recipe")
    text = (facts.folder / "recipe.yaml").read_text(encoding="utf-8")
    section.parts.append(f"<details><summary>as resolved</summary><pre>{escape(text)}</pre></details>")
    return section


def _notes(facts: RunFacts) -> list[str]:
    started = facts.events("start")
    return [*(started[0].get("notes", []) if started else []), *facts.notes]
