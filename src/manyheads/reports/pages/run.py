"""The report of one run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from manyheads.checks.bias_file import BIAS_FILE, WHAT_IT_DOES_NOT_SHOW, WHAT_IT_SHOWS, bias_lines, read_bias
from manyheads.config.recipe import Recipe
from manyheads.console import duration, or_dash
from manyheads.errors import UserError
from manyheads.reports.conflicts import conflict_table, describe_conflicts, read_conflicts
from manyheads.reports.facts import RunFacts
from manyheads.reports.figures import training as draw_training
from manyheads.reports.figures.conflicts import PAIRS_DRAWN, draw_conflict_map
from manyheads.reports.figures.representation import draw_embeddings, project_embeddings
from manyheads.reports.figures.style import figure_style
from manyheads.reports.finding import Finding
from manyheads.reports.findings import find_problems, nothing_found
from manyheads.reports.headlines import Headline, headlines
from manyheads.reports.pages.answers import answer_error_section, answer_section
from manyheads.reports.pages.choices import choice_error_section, choice_section
from manyheads.reports.pages.page import Report, Section, make_table, render_report
from manyheads.reports.pages.tagged_words import tag_error_section, tag_section
from manyheads.reports.pages.task import error_section, task_section

# figure → title for screen readers, caption
TRAINING_FIGURES = {
    "dev-metrics": ("Dev metrics against step", "Primary metrics on dev. Dotted lines: a new phase begins."),
    "losses": (
        "Losses against step",
        "Training loss (averaged over neighbouring steps) and dev loss: log loss, or squared error on the scale of "
        "training, whatever loss the task trains with.",
    ),
    "examples-seen": ("Order of tasks", "Share of each task in the examples, over time."),
    "rates": ("Learning rates", "Learning rates by parameter group."),
    "weights": ("Task weights", "Factors of the losses, and the weights after gradient surgery."),
    "gradients": (
        "Gradients and speed",
        "Gradient norm before clipping (dotted: training.max_grad_norm); optimizer steps per second.",
    ),
}
CONFLICT_CAPTION = (
    "Cosine of two tasks' gradients, layer by layer: orange where they conflict, purple where they agree."
)
EMBEDDING_CAPTION = (
    "Dev examples in the plane of their first two principal components (share of variance), coloured by label."
)
SPACE_TEXT = (
    "Dev sentences as vectors (the mean of their token states): the mean cosine of two of them by the encoder before "
    "and after training, and the rank correlation of all pairs' cosines before and after: 1 keeps the order in which "
    "a search would find them, 0 keeps nothing of it."
)


def run_report(folder: Path) -> Report:
    """The page of a run, finished or not."""
    facts = RunFacts(folder)
    with figure_style():
        sections = [_training_section(facts), _conflict_section(facts)]
        for task_name in facts.predictions:
            sections.append(task_section(facts, task_name))
        for task_name in facts.tagged_words:
            sections.append(tag_section(facts, task_name))
        for task_name in facts.choices:
            sections.append(choice_section(facts, task_name))
        for task_name in facts.answers:
            sections.append(answer_section(facts, task_name))
        sections.append(_embedding_section(facts))
        for task_name in facts.predictions:
            sections.append(error_section(facts, task_name))
        for task_name in facts.tagged_words:
            sections.append(tag_error_section(facts, task_name))
        for task_name in facts.choices:
            sections.append(choice_error_section(facts, task_name))
        for task_name in facts.answers:
            sections.append(answer_error_section(facts, task_name))
        sections += [_bias_section(facts), _recipe_section(facts)]
        lead = _lead(facts)
    notes = [*facts.start.get("notes", []), *facts.notes]
    report = render_report("run.html.jinja", f"{facts.name}: report of a run", sections, notes, lead)
    return replace(report, findings=tuple(finding.text for finding in lead["findings"]))


def _lead(facts: RunFacts) -> dict[str, Any]:
    """What was trained on what, how good it is, and what to look at."""
    recipe = facts.run.recipe
    tasks = [f"{task_name} ({task.train_examples:,})" for task_name, task in facts.tasks.items()]
    task_headlines = headlines(facts)
    lead: dict[str, Any] = {
        "encoder": _encoder_name(recipe),
        "tasks": tasks or list(recipe.tasks),
        "steps_trained": f"{facts.steps_trained:,}",
        "steps_planned": f"{facts.steps_planned:,}",
        "duration": duration(max((record["seconds"] for record in facts.log), default=0.0)),
        "seed": recipe.seed,
        "finished": facts.finished,
        "folder": facts.folder,
        "headline": None,
        "overall": "",
        "weights": describe_weights(facts.metrics.get("model", {})),
        "findings": [*_sharing(task_headlines), *find_problems(facts, task_headlines)],
        "nothing_found": "",
    }
    if task_headlines:
        lead["headline"] = make_table(_headline_rows(task_headlines), "headline")
        lead["overall"] = f"{facts.metrics['dev']['overall']:.3f}"
    elif not facts.finished and facts.events("evaluate"):
        lead["headline"] = make_table(_last_evaluation(facts), "headline")
    if facts.finished:
        lead["nothing_found"] = nothing_found(facts)
    return lead


def _encoder_name(recipe: Recipe) -> str:
    if recipe.extends is None:
        return Path(recipe.encoder.name).name
    extended = Path(recipe.extends)
    name = extended.parent.name if extended.name.startswith("best") else extended.name
    return f"that of {name}, frozen"


def describe_weights(about: dict[str, Any]) -> str:
    """Which weights best/ has, where averaged ones were a candidate too."""
    if "weights" not in about:
        return ""
    return f"best/ has the {about['weights']} weights of step {about['step']:,} (training.average_weights)."


def _headline_rows(task_headlines: list[Headline]) -> list[dict[str, object]]:
    titles: dict[str, None] = {}  # of baselines that some task has
    for headline in task_headlines:
        titles |= dict.fromkeys(headline.baselines)
    rows: list[dict[str, object]] = []
    for headline in task_headlines:
        row: dict[str, object] = {
            "task": headline.task,
            "metric": headline.metric,
            "dev": headline.value,
            "95 % interval": headline.interval or "–",
        }
        for title in titles:
            row[title] = or_dash(headline.baselines.get(title))
        rows.append({**row, "examples": headline.examples})
    return rows


def _sharing(task_headlines: list[Headline]) -> list[Finding]:
    findings = []
    for headline in task_headlines:
        if headline.sharing:
            findings.append(Finding(f"{headline.task}: {headline.sharing}.", "headline"))
    return findings


def _last_evaluation(facts: RunFacts) -> list[dict[str, object]]:
    """Of an unfinished run: its last evaluation, on the dev examples that training evaluates on."""
    record = facts.events("evaluate")[-1]
    rows: list[dict[str, object]] = []
    for task_name, metrics in record["metrics"].items():
        metric = facts.primary_metric(task_name)
        rows.append(
            {
                "task": task_name,
                "metric": metric,
                f"dev at step {record['step']:,}": metrics.get(metric),
                "examples": record["examples"].get(task_name, 0),
            }
        )
    return rows


def _training_section(facts: RunFacts) -> Section:
    section = Section("training", "Training")
    figures = {
        "dev-metrics": draw_training.dev_metrics(facts),
        "losses": draw_training.losses(facts),
        "examples-seen": draw_training.examples_seen(facts),
        "rates": draw_training.learning_rates(facts),
        "weights": draw_training.task_weights(facts),
        "gradients": draw_training.gradients_and_speed(facts),
    }
    for key, (title, caption) in TRAINING_FIGURES.items():
        section.figure(figures[key], key, title, caption)
    return section


def _conflict_section(facts: RunFacts) -> Section:
    section = Section("conflict", "Do the tasks conflict?")
    try:
        conflicts = read_conflicts(facts.run)
    except UserError:
        return section
    section.figure(draw_conflict_map(facts), "conflict-map", "Gradient cosines", CONFLICT_CAPTION)
    if len(conflicts.pairs) > PAIRS_DRAWN:
        section.text(
            f"The map shows the {PAIRS_DRAWN} pairs of {len(conflicts.pairs)} that help or hinder each other most.",
            "soft",
        )
    section.table(conflict_table(conflicts), "conflict-table")
    for line in describe_conflicts(conflicts):
        section.text(line)
    return section


def _embedding_section(facts: RunFacts) -> Section:
    section = Section("representation", "Where examples lie")
    if not facts.predictions:
        return section
    for task_name, embeddings in project_embeddings(facts).items():
        figure = draw_embeddings(facts.predictions[task_name], embeddings)
        title = f"{task_name}: embeddings before and after"
        section.figure(figure, f"pca-{task_name}", title, f"{task_name}. {EMBEDDING_CAPTION}")
    if facts.sentence_spaces:
        section.text(SPACE_TEXT, "soft")
        section.table(_space_rows(facts), "sentence-space")
    return section


def _space_rows(facts: RunFacts) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for task_name, space in facts.sentence_spaces.items():
        rows.append(
            {
                "task": task_name,
                "mean cosine before": space.cosine_before,
                "after": space.cosine_after,
                "rank correlation": space.rank_correlation,
            }
        )
    return rows


def _bias_section(facts: RunFacts) -> Section:
    """Empty where the run was not probed."""
    section = Section("bias", "Names and group words")
    probe = read_bias(facts.folder)
    if probe is None:
        return section
    if probe.model != facts.metrics.get("model"):
        section.text(f"{BIAS_FILE} is of another model of this run: `manyheads probe-bias` again.", "soft")
        return section
    section.text(WHAT_IT_SHOWS, "soft")
    for task_name, task in probe.tasks.items():
        section.heading(f"{task_name}: {task.templates} templates")
        section.table(bias_lines(task), f"bias-{task_name}")
        if task.score:
            section.text(f"Lowest and highest group: {task.score}, from the mean of all groups.", "soft")
    section.text(WHAT_IT_DOES_NOT_SHOW, "soft")
    return section


def _recipe_section(facts: RunFacts) -> Section:
    section = Section("recipe", "Recipe")
    section.details("as resolved", (facts.folder / "recipe.yaml").read_text(encoding="utf-8"))
    return section
