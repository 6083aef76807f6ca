"""A study's rows: variants as written, one per layer, or one per combination of a grid; and the runs of each."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manyheads.config.location import COMMAND_LINE
from manyheads.config.recipe import Recipe
from manyheads.encoder.loading import locate, read_config
from manyheads.errors import UserError
from manyheads.studies.config import BY_TASK, Overrides, Study, Variant, axis_keys, names_value_by_task, stacked
from manyheads.tasks.resolve import load_recipe

ALL = ""  # the member of a row whose one run has all tasks
CheckRecipe = Callable[[Recipe], None]


@dataclass(frozen=True)
class Row:
    """A row of the table: one run of all tasks (under ''), or a run for each task."""

    name: str
    variant: str  # of the study's file, from which it is made
    members: dict[str, Overrides]
    seeds: int | None = None  # the first so many of the study's; None has all
    taught_by: str | None = None  # the row whose runs are the teachers of this one's

    def seed_count(self, study: Study) -> int:
        return len(study.seed_list[: self.seeds])


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study."""

    row: str
    member: str
    seed: int
    recipe: Recipe
    first_seed: bool = False  # of its study: what is kept of one seed alone is kept of this one
    margins: dict[str, Any] = field(default_factory=dict)  # `not_worse` of its study, kept with the result
    teachers: dict[str, list[str]] = field(default_factory=dict)  # task → identities of the runs that teach it

    @property
    def label(self) -> str:
        """'cross, seed 0' or 'alone: sst, seed 0'."""
        if self.member:
            return f"{self.row}: {self.member}, seed {self.seed}"
        return f"{self.row}, seed {self.seed}"


def base_recipe(study: Study, overrides: Overrides) -> Recipe:
    """The recipe that all variants start from."""
    return variant_recipe(study, {}, overrides, "")


def variant_recipe(
    study: Study, settings: Overrides, overrides: Overrides, variant: str, check: CheckRecipe | None = None
) -> Recipe:
    """The recipe of a row, or of one of its runs: the row's settings come last, after the command line's overrides."""

    def load(*layers: Overrides) -> Recipe:
        return _load_base(study, stacked(*layers), check)

    try:
        return load(study.set, overrides, settings)
    except UserError as fault:
        message = str(fault).replace(f"{COMMAND_LINE}: ", "")
        # the fault is that of the first layer that shows it alone
        if _fails_alike(load, fault):
            raise UserError(f"{study.location('base')}: {message}", code=fault.code) from None
        if _fails_alike(load, fault, study.set):
            raise UserError(f"{study.location_of_setting(message)}: {message}", code=fault.code) from None
        if not variant or _fails_alike(load, fault, study.set, overrides):
            raise
        raise UserError(f"{study.location('variants', variant)}: {message}", code=fault.code) from None


def _load_base(study: Study, settings: Overrides, check: CheckRecipe | None) -> Recipe:
    base: str | Path = study.base
    beside_the_study = study._folder / study.base
    if beside_the_study.is_file():
        base = beside_the_study
    recipe = load_recipe(base, settings, COMMAND_LINE)
    if check is not None:
        check(recipe)
    return recipe


def _fails_alike(load: Callable[..., Recipe], fault: UserError, *layers: Overrides) -> bool:
    try:
        load(*layers)
    except UserError as new_fault:
        return str(new_fault) == str(fault)
    return False


def make_rows(study: Study, base: Recipe) -> list[Row]:
    """The rows in the order of the file."""
    rows: list[Row] = []
    for name, variant in study.variants.items():
        rows += _variant_rows(study, name, variant, base)
    return rows


def plan_runs(
    study: Study, rows: list[Row], overrides: Overrides, check: CheckRecipe | None = None
) -> list[PlannedRun]:
    """Every run of a study: all seeds of a row before the next row."""
    margins: dict[str, Any] = {}
    if study.not_worse is not None:
        margins = study.not_worse.model_dump(mode="json")
    runs: list[PlannedRun] = []
    for row in rows:
        for seed in study.seed_list[: row.seeds]:
            with_seed = stacked(overrides, {"seed": seed})
            for member, settings in row.members.items():
                recipe = variant_recipe(study, settings, with_seed, row.variant, check)
                first = seed == study.seed_list[0]
                runs.append(PlannedRun(row.name, member, seed, recipe, first, margins))
    return runs


# --- rows that a variant stands for -----------------------------------------------------------------------------


def _variant_rows(study: Study, name: str, variant: Variant, base: Recipe) -> list[Row]:
    """A row for every combination of the grid and every layer."""
    layer_words = _layer_words(study, name, variant, base)
    rows: list[Row] = []
    for combination in itertools.product(*variant.grid.values()):
        chosen: Overrides = {}
        short_names: dict[str, Any] = {}
        for axis, value in zip(variant.grid, combination, strict=True):
            keys = axis_keys(axis)
            chosen.update(dict.fromkeys(keys, value))
            short_names[keys[0].rpartition(".")[2]] = value
        for words in layer_words:
            title = _title(name, {**short_names, **words})
            settings = stacked(variant.set, chosen)
            members = {ALL: _fill(settings, words)}
            if "task" in variant.each:
                members = _task_members(study.location("variants", name), settings, words, list(base.tasks))
            rows.append(Row(title, name, members, variant.seeds, variant.taught_by))
    return rows


def _layer_words(study: Study, name: str, variant: Variant, base: Recipe) -> list[dict[str, Any]]:
    """What '{layer}' stands for in each row: nothing, or every layer of the encoder."""
    if "layer" not in variant.each:
        return [{}]
    try:
        depth = _encoder_depth(base)
    except UserError as fault:
        raise UserError(f"{study.location('variants', name, 'each')}: {fault}", code=fault.code) from None
    return [{"layer": layer} for layer in range(1, depth + 1)]


def _task_members(location: str, settings: Overrides, words: dict[str, Any], tasks: list[str]) -> dict[str, Overrides]:
    """A run for each task. A run of all tasks keeps the checkpoint that is best for its own."""
    members: dict[str, Overrides] = {}
    for task in tasks:
        last = [name for name in tasks if name != task]
        last.append(task)
        chosen = _values_of_task(location, settings, task)
        filled = _fill(chosen, {**words, "task": task, "last": last})
        if "tasks" not in filled:
            weights = {name: float(name == task) for name in tasks}
            filled = {"evaluate.weights": weights, **filled}
        members[task] = filled
    return members


def _values_of_task(location: str, settings: Overrides, task: str) -> Overrides:
    """`{by_task: {sst: 3, sts: 4}}` → the value of the run's own task."""
    chosen: Overrides = {}
    for key, value in settings.items():
        if names_value_by_task(value):
            if task not in value[BY_TASK]:  # more tasks may be named than this call trains
                named = ", ".join(map(str, value[BY_TASK]))
                raise UserError(
                    f"{location}: {key}: {BY_TASK} has no value for '{task}', only for {named}; name every task.",
                    code="task-without-value",
                )
            value = value[BY_TASK][task]
        chosen[key] = value
    return chosen


def _title(name: str, values: dict[str, Any]) -> str:
    """The row's name with its values where it says '{key}', the others after it."""
    appended: list[str] = []
    for key, value in values.items():
        text = value
        if not isinstance(value, str):
            text = json.dumps(value)
        if f"{{{key}}}" in name:
            name = name.replace(f"{{{key}}}", text)
        else:
            appended.append(f"{key} {text}")
    if not appended:
        return name
    return f"{name} ({', '.join(appended)})"


def _fill(value: Any, words: dict[str, Any]) -> Any:
    """'{task}' alone becomes the word itself, whatever its type; within a longer text it is written out."""
    if isinstance(value, dict):
        return {_fill(key, words): _fill(content, words) for key, content in value.items()}
    if isinstance(value, list):
        return [_fill(item, words) for item in value]
    if isinstance(value, str):
        for word, replacement in words.items():
            if value == f"{{{word}}}":
                return replacement
            value = value.replace(f"{{{word}}}", str(replacement))
    return value


def _encoder_depth(base: Recipe) -> int:
    config = read_config(Path(locate(base.encoder.name, base.encoder.revision).folder))
    return int(config.get("num_hidden_layers", config.get("n_layers", 0)))
