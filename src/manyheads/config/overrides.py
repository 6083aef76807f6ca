"""Settings that replace a recipe's: `training.epochs=1`, `tasks.*.loss=mse`, `tasks=[sst, sts]`."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from manyheads.config.location import SourceLocations
from manyheads.config.task import SOURCE_KEYS, source_mapping
from manyheads.config.yaml_file import RecipeLoader
from manyheads.errors import UserError, nearest

Content = dict[str, Any]


def parse_overrides(words: list[str]) -> Content:
    """['training.epochs=1'] → {'training.epochs': 1}; values are YAML."""
    overrides = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UserError(
                f"Override '{word}': expected key.path=value, for example training.epochs=1.", code="bad-override"
            )
        try:
            overrides[key] = yaml.load(value, Loader=RecipeLoader)
        except yaml.YAMLError:
            raise UserError(f"Override '{word}': the value is not valid YAML; quote it.", code="bad-override") from None
    return overrides


def plain_copy(value: Any) -> Any:
    """A copy that may be changed, with paths as the text that a file would have."""
    if isinstance(value, dict):
        return {key: plain_copy(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_copy(inner) for inner in value]
    if isinstance(value, Path):
        return str(value)
    return copy.deepcopy(value)


def apply_overrides(content: Content, overrides: Content, locations: SourceLocations) -> set[str]:
    """Replace settings in place; returns the tasks that were left out."""
    overrides = plain_copy(overrides)
    left_out: set[str] = set()
    if isinstance(overrides.get("tasks"), list):
        left_out = _choose_tasks(content, overrides.pop("tasks"), locations)
    _check_task_names(overrides, content, left_out, locations.overrides_from)
    for key, value in _for_every_task(overrides, content).items():
        if not _is_about(key, left_out):
            _set(content, locations, key, value)
    return left_out


def _is_about(key: str, tasks: set[str]) -> bool:
    root, _, rest = key.partition(".")
    return root == "tasks" and rest.partition(".")[0] in tasks


def _for_every_task(overrides: Content, content: Content) -> Content:
    """{'tasks.*.loss': …} → the same of each task by name."""
    expanded: Content = {}
    for key, value in overrides.items():
        if key.startswith("tasks.*.") and isinstance(content.get("tasks"), dict):
            for name in content["tasks"]:
                expanded[f"tasks.{name}.{key.removeprefix('tasks.*.')}"] = copy.deepcopy(value)
        else:
            expanded[key] = value
    return expanded


def _check_task_names(overrides: Content, content: Content, left_out: set[str], overrides_from: str) -> None:
    """A task that the recipe does not have must at least be given files; else its name is misspelt."""
    tasks = content.get("tasks")
    known_names = set(left_out)
    if isinstance(tasks, dict):
        known_names.update(tasks)
    for key in overrides:
        root, _, rest = key.partition(".")
        name = rest.partition(".")[0]
        if root != "tasks" or "." not in rest or name in ("*", *known_names):
            continue
        if f"tasks.{name}.train" not in overrides:
            raise UserError(
                f"{overrides_from}: {key}: no task '{name}'.{nearest(name, known_names)}", code="unknown-task"
            )


def _choose_tasks(content: Content, names: list[Any], locations: SourceLocations) -> set[str]:
    """`tasks=[sst, sts]`: these of the recipe's tasks, in this order; returns the others."""
    tasks = content.get("tasks")
    if not isinstance(tasks, dict):
        tasks = {}
    chosen = [str(name) for name in names]
    for name in chosen or [""]:
        if name not in tasks:
            raise UserError(
                f"{locations.overrides_from}: tasks: no task '{name}' in {locations.file}.{nearest(name, tasks)}",
                code="unknown-task",
            )
    content["tasks"] = {name: tasks[name] for name in chosen}
    return set(tasks) - set(chosen)


def _set(content: Content, locations: SourceLocations, key: str, value: Any) -> None:
    """Put a value at a dotted key, making the mappings on the way."""
    *parents, last = path = tuple(key.split("."))
    mapping = content
    for depth, step in enumerate(parents, start=1):
        inner = mapping.get(step)
        if inner is None:
            locations.overridden.add(path[:depth])
            inner = {}
        if isinstance(inner, str):  # `train: FILE`, `encoder: NAME` and `loss: NAME` are short for mappings
            inner = source_mapping(inner) if step in SOURCE_KEYS else {"name": inner}
        if not isinstance(inner, dict):
            raise UserError(
                f"{locations.overrides_from}: {key}: '{step}' is not a mapping in {locations.file}.",
                code="bad-override",
            )
        mapping[step] = inner
        mapping = inner
    mapping[last] = value
    locations.overridden.add(path)
    locations.forget_lines(path)
