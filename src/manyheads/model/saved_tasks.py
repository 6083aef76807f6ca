"""manyheads.json: which tasks a model has. Right types, sound values, parts that are registered; no torch here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from manyheads import registry
from manyheads.config.part import PartConfig
from manyheads.errors import UserError
from manyheads.model.folder_checks import MODEL_FILE, SHOWN, guarded, printable, read_json, refused
from manyheads.parts.kinds.calibration import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from manyheads.tasks.part_compatibility import incompatible_parts
from manyheads.tasks.task import Task

FAMILIES = {"encoding": "encodings", "pooling": "pooling", "head": "heads", "output": "outputs", "loss": "losses"}
LARGEST_OPTION = 2**16  # of a part's integer options, such as units or layers
LONGEST_INPUT = 2**20  # tokens
CONTROL_CHARACTERS = {chr(code) for code in (*range(32), *range(127, 160))} - {"\t", "\n"}


class ModelFile(BaseModel):
    """manyheads.json: what the model is and which tasks it has."""

    model_config = ConfigDict(strict=True)

    about: dict[str, Any] = {}
    max_length: int = Field(ge=1, le=LONGEST_INPUT)
    tasks: list[dict[str, Any]] = Field(min_length=1)
    imports: dict[str, str] = {}  # 'losses/huber' → the name of the file that registered it when this was trained


def read_model_file(folder: Path) -> tuple[ModelFile, dict[str, Task]]:
    """manyheads.json and its tasks: right types, sound values, parts that are registered."""
    file = folder / MODEL_FILE
    try:
        content = ModelFile.model_validate(read_json(file))
    except ValidationError as error:
        raise refused(file, _first_fault(error)) from None
    tasks: dict[str, Task] = {}
    for number, saved in enumerate(content.tasks, start=1):
        task = _read_task(file, number, saved)
        if task.name in tasks:
            raise refused(file, f"two tasks are called '{task.name}'.")
        tasks[task.name] = task
    _check_parts_exist(folder, content, tasks)
    for task in tasks.values():
        with guarded(file):
            reason = _why_invalid(task, tasks)
        if reason is not None:
            raise refused(file, f"task '{task.name}': {reason}")
    return content, tasks


def _first_fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    key = ".".join(map(str, fault["loc"]))
    return f"{key}: {fault['msg']} (found {repr(fault['input'])[:SHOWN]})."


def _read_task(file: Path, number: int, saved: dict[str, Any]) -> Task:
    try:
        return Task.from_json(saved)
    except ValidationError as error:
        raise refused(file, f"task {number}: {_first_fault(error)}") from None
    except KeyError as error:
        raise refused(file, f"task {number}: the key {error} is missing.") from None
    except (TypeError, ValueError, AttributeError) as fault:
        raise refused(file, f"task {number}: {fault}.") from None


def _check_parts_exist(folder: Path, content: ModelFile, tasks: dict[str, Task]) -> None:
    """Parts that are not registered are refused by name, with the file that had them when the model was trained."""
    missing: dict[str, None] = {}
    for task in tasks.values():
        named = [("kinds", task.labels.kind)]
        named += [(family, getattr(task, key).name) for key, family in FAMILIES.items()]
        for family, name in named:
            if not is_registered(family, name):
                missing[f"{family}/{name}"] = None
    if missing:
        raise unknown_parts(folder / MODEL_FILE, list(missing), content.imports)


def is_registered(family: str, name: str) -> bool:
    return any(part.name == name for part in registry.parts(family))


def check_metrics(tasks: Iterable[Task], file: Path) -> None:
    """Prediction needs no metrics; evaluation does."""
    missing: dict[str, None] = {}
    for task in tasks:
        for metric in task.metrics:
            if not is_registered("metrics", metric.name):
                missing[f"metrics/{metric.name}"] = None
    if missing:
        raise unknown_parts(file, list(missing), {})


class UnknownParts(UserError):
    """Parts are not registered. `reason` is the message without the advice, for those who know the files in full."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(f"{reason}\n  {advice}", "unknown-part")
        self.reason = reason


def unknown_parts(file: Path, missing: list[str], registered_by: dict[str, str]) -> UnknownParts:
    """Which parts are not registered, who registered them, and how to trust that file."""
    sentences: list[str] = []
    files: dict[str, None] = {}
    for part in missing[:20]:
        source = registered_by.get(part)
        if source is None:
            sentences.append(f"{part} is not a part of manyheads.")
            files["FILE"] = None
        else:
            sentences.append(f"{part} was registered by {source} when this model was trained.")
            files[source] = None
    options = " ".join(f"--imports {source}" for source in files)
    advice = f"Opening a model never runs code. If you trust that file: {options} (in Python: imports=[...])."
    reason = "\n  ".join(["this model needs parts that are not registered:", *sentences])
    return UnknownParts(f"{file}: {printable(reason)}", printable(advice))


def _why_invalid(task: Task, tasks: dict[str, Task]) -> str | None:
    """What no training could have written, or None."""
    if not task.name.replace("-", "").replace("_", "").isalnum():  # as a recipe has it: names become file names
        return "a task's name is of letters, digits, '-' and '_'."
    if task.head_of is not None and (task.head_of not in tasks or tasks[task.head_of].head_of is not None):
        return f"head_of: task '{task.head_of}' has no head to share."
    return _why_labels_invalid(task) or _why_parts_invalid(task)


def _why_labels_invalid(task: Task) -> str | None:
    classes = len(task.labels.names)
    if task.unit <= 0:
        return f"unit: expected a positive number, found {task.unit}."
    if task.bounds is not None and task.bounds[0] > task.bounds[1]:
        return f"bounds: expected the smallest label first, found {task.bounds}."
    if task.kind.has_classes != (classes > 0):
        return f"labels: a {task.labels.kind} with {classes} classes."
    for name in (*task.labels.names, *task.columns.text):
        if CONTROL_CHARACTERS & set(name):
            return f"'{name}' has control characters, which a terminal would obey."
    if any(not 0 <= index < classes for index in task.labels.values.values()):
        return f"labels.values: expected class indices below {classes}."
    if task.counts and len(task.counts) != classes:
        return f"counts: {len(task.counts)} numbers for {classes} classes."
    if len(task.columns.text) not in (1, 2):
        return f"columns.text: expected one or two columns, found {len(task.columns.text)}."
    return _why_calibration_invalid(task, classes)


def _why_calibration_invalid(task: Task, classes: int) -> str | None:
    if not LOWEST_TEMPERATURE <= task.temperature <= HIGHEST_TEMPERATURE:
        expected = f"{LOWEST_TEMPERATURE} to {HIGHEST_TEMPERATURE:g}"
        return f"temperature: expected a number from {expected}, found {task.temperature}."
    if task.thresholds and len(task.thresholds) != (1 if task.kind.per_token else classes):
        return f"thresholds: {len(task.thresholds)} numbers for {classes} classes."
    for threshold in task.thresholds:
        if not 0 < threshold < 1:
            return f"thresholds: expected numbers between 0 and 1, found {threshold}."
    return None


def _why_parts_invalid(task: Task) -> str | None:
    """Wrong options, or parts that do not fit each other. Metrics that are not registered do not matter here."""
    for key, family in FAMILIES.items():
        reason = _why_options_invalid(family, getattr(task, key))
        if reason is not None:
            return f"{key}: {reason}"
    for key, reason in incompatible_parts(replace(task, metrics=())):
        return f"{key}: {reason}"
    return None


def _why_options_invalid(family: str, part_config: PartConfig) -> str | None:
    part = registry.find(family, part_config.name)
    try:
        part.check(part_config.options)
    except ValueError as fault:
        return str(fault)
    if not part.factory.__module__.startswith("manyheads."):
        return None  # what an imported part takes is its own affair
    for name, value in part_config.options.items():
        if isinstance(value, int) and abs(value) > LARGEST_OPTION:
            return f"option '{name}' is {value}; at most {LARGEST_OPTION}."
    return None
