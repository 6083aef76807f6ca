"""README.md of a published folder: a model card that says what the run knows, and what nobody has said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml
from huggingface_hub import ModelCard

from manyheads import __version__
from manyheads.console import BASELINES
from manyheads.data.table import question_columns, text_columns
from manyheads.parts.metrics import primary
from manyheads.publishing.card_limits import bias_section, exported_section, limits_section
from manyheads.publishing.facts import CardFacts
from manyheads.publishing.markdown import code, details, fenced, number, plain, table
from manyheads.publishing.metadata import card_data
from manyheads.publishing.portable import without_paths
from manyheads.tasks.task import Task

SINGLE_TEXTS = ("A warm and funny film.", "It was not bad at all, but rather long.")
PAIR_TEXTS = (("A man plays the guitar.", "Somebody makes music."),)
CHOICE_TEXTS = ("A man plays.", "What does he play?", ["The guitar.", "Tea."])  # the context only where a task has one
NOT_PUBLISHED = {"output", "description", "report", "trackers", "name"}  # of the recipe
NO_TEXTS = (
    "This folder holds weights, the tokenizer, names of classes and columns, and figures. It holds no text of the "
    "training or dev data, and no code: opening it runs none."
)


def model_card(facts: CardFacts) -> str:
    """Front matter and page."""
    name = facts.settings.hub_name or facts.run.name
    head = card_data(facts, name).to_yaml()
    sections: list[tuple[str, Callable[[CardFacts], str]]] = [
        ("", _lead),
        ("How to use it", _usage),
        ("Tasks", _tasks_section),
        ("Data", _data_section),
        ("Results", _results_section),
        ("Calibration", _calibration_section),
        ("Limits", limits_section),
        ("Names and group words", bias_section),
        ("Exported", exported_section),
        ("Settings", _settings_section),
        ("Licence and languages", _licence_section),
    ]
    page = [f"# {plain(name)}"]
    for title, write in sections:
        text = write(facts)
        if text:
            page.append(f"## {title}\n\n{text}" if title else text)
    content = f"---\n{head}\n---\n\n" + "\n\n".join(page) + "\n"
    return str(ModelCard(content))  # reads it back: a head that the hub could not read fails here


def _lead(facts: CardFacts) -> str:
    tasks = list(facts.tasks)
    heads = f"{len(tasks)} heads" if len(tasks) > 1 else "one head"
    description = f"{plain(facts.recipe.description)}\n\n" if facts.recipe.description else ""
    return (
        f"{description}One encoder ({code(facts.encoder_name)}) with {heads}: {', '.join(map(code, tasks))}. "
        f"Fine-tuned by manyheads {__version__}; step {facts.about.get('step', 0):,}, seed {facts.recipe.seed}.\n\n"
        f"{NO_TEXTS}"
    )


# --- use --------------------------------------------------------------------------------------------------------


def _usage(facts: CardFacts) -> str:
    imported = _own_parts(facts)
    install = fenced("pip install manyheads", "sh")
    name = facts.settings.hub_name
    command = f"hub:{name}" if name else "."
    lines = [
        install,
        fenced(usage_code(facts), "python"),
        f"Or {code(f'manyheads predict {command}')}, {code(f'manyheads serve {command}')}. transformers' `AutoModel` "
        "opens the encoder alone.",
    ]
    if imported:
        files = ", ".join(map(code, imported))
        lines.insert(0, f"**It needs parts that are not manyheads' own** ({files}), which are not published here.")
    return "\n\n".join(lines)


def usage_code(facts: CardFacts) -> str:
    """Five lines at most; of two tasks that read different numbers of texts, one each."""
    name = facts.settings.hub_name
    if name is None:
        lines = ["from manyheads import Predictor", "", 'model = Predictor.open(".")  # this folder']
    else:
        lines = ["from manyheads import Run", "", f"model = Run.from_hub({name!r})"]
    shown: set[tuple[bool, bool]] = set()
    for task in facts.tasks.values():
        if (task.pair, task.kind.per_candidate) not in shown:
            shown.add((task.pair, task.kind.per_candidate))
            shown_texts: list[Any] = list(PAIR_TEXTS if task.pair else SINGLE_TEXTS)
            if task.kind.per_candidate:
                shown_texts = [CHOICE_TEXTS[-1 - len(question_columns(task.columns)) :]]
            lines.append(f"print(model.predict({task.name!r}, {shown_texts!r}))")
    return "\n".join(lines)


def _own_parts(facts: CardFacts) -> list[str]:
    """Files that the model's parts come from."""
    return [without_paths(file) for file in facts.recipe.imports]


# --- what it does -----------------------------------------------------------------------------------------------


def _tasks_section(facts: CardFacts) -> str:
    lines: list[dict[str, str]] = []
    for task in facts.tasks.values():
        parts = (task.encoding, task.pooling, task.head, task.loss)
        lines.append(
            {
                "task": code(task.name),
                "kind": task.kind.name,
                "reads": ", ".join(map(code, text_columns(task.columns))),
                "predicts": _labels(task),
                "encoding, pooling, head, loss": ", ".join(code(part.name) for part in parts),
            }
        )
    if not facts.earlier_tasks:
        return table(lines)
    earlier = ", ".join(map(code, facts.earlier_tasks))
    note = (
        f"{earlier}: of the model that this run extends, encoder and heads as they were. Its card has their data and "
    )
    return f"{table(lines)}\n\n{note}figures; below are those of the other tasks."


def _labels(task: Task) -> str:
    columns = task.columns.label if isinstance(task.columns.label, tuple) else (task.columns.label,)
    label = ", ".join(code(column) for column in columns if column)
    if task.kind.has_classes:
        names = ", ".join(map(code, task.labels.names))
        return f"{label}: {names}" if columns != task.labels.names else names
    if task.kind.per_candidate:
        return f"{label}: which candidate is right"
    if task.kind.per_token:
        return f"{label}: an answer in the text, or none"
    if task.kind.searches:
        return "a vector of each text, near those that match"
    low, high = task.bounds or (0.0, 1.0)
    return f"{label}: {low:g} to {high:g}"


def _data_section(facts: CardFacts) -> str:
    lines: list[dict[str, str]] = []
    for task_name in facts.run.tasks:
        for dataset in facts.datasets(task_name):
            lines.append(
                {
                    "task": code(task_name),
                    "split": dataset.split,
                    "from": plain(dataset.name),
                    "labelled rows": "–" if dataset.rows is None else f"{dataset.rows:,}",
                    "fingerprint": code(dataset.fingerprint) if dataset.fingerprint else "–",
                }
            )
    note = "Fingerprints are of texts and labels as the run read them: equal ones mean equal data."
    return f"{table(lines)}\n\n{note}" if lines else ""


# --- how good it is ---------------------------------------------------------------------------------------------


def _results_section(facts: CardFacts) -> str:
    metrics = facts.run.metrics
    lines: list[dict[str, str]] = []
    tested = metrics.get("test", {}).get("metrics", {})
    baselines = [title for key, title in BASELINES.items() if key in metrics]
    for task_name, task in facts.run.tasks.items():
        intervals, own_baselines = facts.intervals(task_name), facts.run.baselines(task_name)
        for metric, value in metrics["dev"]["metrics"].get(task_name, {}).items():
            interval = intervals.get(metric)
            shown = number(value)
            line = {
                "task": code(task_name),
                "metric": plain(metric),
                "dev": f"**{shown}**" if metric == primary(task) else shown,
                "95 % interval": f"{interval[0]:.3f} to {interval[1]:.3f}" if interval else "–",
            }
            for title in baselines:
                baseline = own_baselines.get(title, {}).get(metric)
                line[title] = "–" if baseline is None else number(baseline)
            if tested:
                line["test"] = number(tested[task_name][metric]) if task_name in tested else "–"
            lines.append(line)
    chosen_on = str(facts.about.get("chosen_on", "dev examples"))
    chosen = f"The model was chosen on {plain(chosen_on)}."
    if chosen_on.startswith("dev"):
        chosen += " Dev figures therefore flatter it a little."
    about_test = "Test was read once, at the end." if tested else "There are no test figures."
    notes = [
        "Intervals are over dev examples; bold is what models are chosen by. `majority` is the best constant "
        "prediction, `frozen probe` a linear model on the encoder before training.",
        f"{chosen} {about_test}",
    ]
    return "\n\n".join([table(lines), *notes])


def _calibration_section(facts: CardFacts) -> str:
    lines: list[dict[str, str]] = []
    for task_name, fitted in facts.run.metrics.get("calibration", {}).items():
        how = "thresholds" if "thresholds" in fitted else f"temperature {fitted['temperature']:.3g}"
        for metric, before in fitted["before"].items():
            after = fitted["after"][metric]
            lines.append(
                {
                    "task": code(task_name),
                    "fitted": how,
                    "on dev": plain(metric),
                    "before": number(before),
                    "after": number(after),
                }
            )
    return table(lines) if lines else "Probabilities were not calibrated, or no task has any."


# --- where it comes from ----------------------------------------------------------------------------------------


def _settings_section(facts: CardFacts) -> str:
    settings = facts.recipe.model_dump(mode="json", exclude_defaults=True, exclude=NOT_PUBLISHED)
    if settings.get("data", {}).keys() <= {"root"}:
        settings.pop("data", None)
    settings.get("data", {}).pop("root", None)
    text = yaml.safe_dump(without_paths(settings), sort_keys=False, allow_unicode=True)
    note = "What the recipe sets, beside the defaults; folders are left out."
    return f"{note}\n\n{details('recipe', fenced(text, 'yaml'))}"


def _licence_section(facts: CardFacts) -> str:
    settings = facts.settings
    base = code(facts.encoder_name)
    lines = [
        f"- Model: {plain(settings.licence)}."
        if settings.licence
        else "- Model: **no licence was given** by whoever published it.",
        f"- Encoder it started from, {base}: {plain(settings.base_licence)}, as whoever published this says."
        if settings.base_licence
        else f"- Encoder it started from, {base}: **its licence was not given**; look it up where it comes from.",
        "- Data: each set has a licence of its own, which this card does not know.",
        f"- Languages: {', '.join(map(plain, settings.languages))}."
        if settings.languages
        else "- Languages: **not given**.",
    ]
    return "\n".join(lines)
