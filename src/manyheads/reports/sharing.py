"""Whether sharing the encoder helped a task: this run against a sibling run that trained the task alone."""

from __future__ import annotations

from typing import Any

from manyheads.config.recipe import Recipe
from manyheads.inference.bootstrap import drawn_metric
from manyheads.parts.metrics import better, primary
from manyheads.reports.facts import RunFacts
from manyheads.studies.statistics import difference

# settings that name a run, or that have no effect on a task trained alone
NOT_COMPARED = {"name", "output", "description", "report", "trackers", "tasks", "sampler", "combine", "checkpoint"}
SETTINGS_LISTED = 4


def effect_of_sharing(facts: RunFacts, task_name: str) -> str:
    """Against the sibling run with the most similar recipe; '' where no sibling trained the task alone on this dev."""
    if len(facts.measured_tasks) < 2:
        return ""
    nearest: RunFacts | None = None
    nearest_differences: list[str] = []
    for sibling in facts.sibling_runs:
        if not _trained_alone(sibling, task_name, facts.metrics["data"][f"{task_name} dev"]):
            continue
        differences = _different_settings(facts.run.recipe, sibling.run.recipe, task_name)
        if nearest is None or len(differences) < len(nearest_differences):
            nearest, nearest_differences = sibling, differences
    if nearest is None:
        return ""
    return _compare(facts, nearest, task_name, nearest_differences)


def _trained_alone(sibling: RunFacts, task_name: str, dev: str) -> bool:
    """Whether a run has this task only, on dev data with this fingerprint."""
    if sibling.metrics.get("data", {}).get(f"{task_name} dev") != dev:
        return False
    return list(sibling.metrics["dev"]["metrics"]) == [task_name]


def _different_settings(shared: Recipe, alone: Recipe, task_name: str) -> list[str]:
    """Settings that differ and matter to a task alone: not the other tasks, their order or their combination."""
    shared_settings = _settings(shared, task_name)
    alone_settings = _settings(alone, task_name)
    differences = []
    for section, value in shared_settings.items():
        alone_value = alone_settings[section]
        if not isinstance(value, dict):
            if value != alone_value:
                differences.append(section)
            continue
        for key in value:
            if value[key] != (alone_value or {}).get(key):
                differences.append(f"{section}.{key}")
    return differences


def _settings(recipe: Recipe, task_name: str) -> dict[str, Any]:
    settings = recipe.model_dump(mode="json", exclude=NOT_COMPARED)
    settings["evaluate"].pop("weights")
    settings["training"].pop("conflicts")
    settings["task"] = recipe.tasks[task_name].model_dump(mode="json")
    return settings


def _compare(facts: RunFacts, alone: RunFacts, task_name: str, differences: list[str]) -> str:
    task = facts.tasks[task_name]
    metric = primary(task)
    dev = facts.metrics["data"][f"{task_name} dev"]
    values, draws = [], []
    for run in (facts, alone):
        own_task, predictions, labels = run.measured_tasks[task_name]
        values.append(run.metrics["dev"]["metrics"][task_name][metric])
        draws.append(drawn_metric(own_task, metric, predictions, labels, dev)[None])
    if None in values:
        return ""
    change = difference([values[0]], [values[1]], *draws)
    if abs(change.mean) <= change.half_width:
        effect = "sharing made no measurable difference"
    elif better(task, values[0], values[1]):
        effect = "sharing helped"
    else:
        effect = "sharing hurt"
    also = ""
    if differences:
        also = f", which also differs in {', '.join(differences[:SETTINGS_LISTED])}"
        if len(differences) > SETTINGS_LISTED:
            also += " …"
    return f"{effect} ({change.mean:+.3f} ± {change.half_width:.3f} against {alone.name}{also}; one seed each)"
