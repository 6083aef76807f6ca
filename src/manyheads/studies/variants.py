"""A study's rows: variants as written, one per layer, or one per combination of a grid; and the runs of each."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyheads.config.recipe import Recipe
from manyheads.encoder.loading import locate, read_config
from manyheads.errors import UserError
from manyheads.studies.config import Overrides, Study, Variant, stacked
from manyheads.tasks.resolve import load_recipe

ALL = ""  # the member of a row whose one run answers for every task


@dataclass(frozen=True)
class Row:
    """A row of the table: one run that answers for all tasks (under ''), or a run for each task."""

    name: str
    variant: str  # of the study's file, from which it is made
    members: dict[str, Overrides]


@dataclass(frozen=True)
class Planned:
    """One run of a study."""

    row: str
    member: str
    seed: int
    recipe: Recipe

    @property
    def label(self) -> str:
        """'cross, seed 0' or 'alone: sst, seed 0'."""
        return f"{self.row}{f': {self.member}' if self.member else ''}, seed {self.seed}"


def base_recipe(study: Study, more: Overrides) -> Recipe:
    """The recipe that all variants start from."""
    return variant_recipe(study, {}, more, "")


def variant_recipe(
    study: Study, own: Overrides, more: Overrides, variant: str, check: Callable[[Recipe], None] | None = None
) -> Recipe:
    """The recipe of a row, or of one of its runs. What makes the row stands above what the command line says of all."""
    beside = study._folder / study.base

    def load(*layers: Overrides) -> Recipe:
        found = load_recipe(beside if beside.is_file() else study.base, stacked(*layers))
        if check:
            check(found)
        return found

    try:
        return load(study.set, more, own)
    except UserError as fault:
        told = str(fault).replace("command line: ", "")
        # whose fault is it? Of what comes first and shows it alone
        if _has_fault(load, fault):
            raise UserError(f"{study._origin.location(('base',))}: {told}") from None
        if _has_fault(load, fault, study.set):
            raise UserError(f"{study.place_of_set(told)}: {told}") from None
        if not variant or _has_fault(load, fault, study.set, more):
            raise
        raise UserError(f"{study._origin.location(('variants', variant))}: {told}") from None


def _has_fault(load: Callable[..., Recipe], wanted: UserError, *layers: Overrides) -> bool:
    try:
        load(*layers)
    except UserError as found:
        return str(found) == str(wanted)
    return False


def rows_of(study: Study, base: Recipe) -> list[Row]:
    """The rows in the order of the file."""
    return [row for name, variant in study.variants.items() for row in _rows(study, name, variant, base)]


def check_names(study: Study, rows: list[Row]) -> None:
    """No two rows, baselines among them, may answer to one name."""
    names = [row.name for row in rows]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{study._origin.location(('variants',))}: two rows are called '{twice}'.")


def check_overrides(study: Study, more: Overrides) -> None:
    """The command line may change what all rows have in common, not what tells them apart."""
    kept = more.get("tasks")
    for name, variant in study.variants.items():
        for key in (*variant.set, *variant.grid):
            given = next((one for one in more if _meet(one, key)), None)
            if given is not None:
                raise UserError(
                    f"command line: {given}: row '{name}' sets {key} itself, so it cannot be set for all rows. "
                    "Change it in the study's file, or in a copy of it."
                )
        own = variant.set.get("tasks")
        if isinstance(kept, list) and isinstance(own, list):
            gone = next((task for task in own if task not in kept and task != "{task}"), None)
            if gone is not None:
                raise UserError(f"command line: tasks: row '{name}' trains '{gone}', which is left out.")


def _meet(one: str, other: str) -> bool:
    """Whether two dotted keys are the same, or one holds the other; which tasks there are is another matter."""
    pairs = list(zip(one.split("."), other.split("."), strict=False))
    if pairs == [("tasks", "tasks")]:
        return False
    return all(a == b or "*" in (a, b) for a, b in pairs)


def plan_runs(
    study: Study, rows: list[Row], more: Overrides, check: Callable[[Recipe], None] | None = None
) -> list[Planned]:
    """Every run of a study: all seeds of a row before the next row."""
    return [
        Planned(row.name, member, seed, variant_recipe(study, own, stacked(more, {"seed": seed}), row.variant, check))
        for row in rows
        for seed in study.seed_list
        for member, own in row.members.items()
    ]


# --- rows that a variant stands for -----------------------------------------------------------------------------


def _rows(study: Study, name: str, variant: Variant, base: Recipe) -> list[Row]:
    choices: list[dict[str, Any]] = [
        dict(zip(variant.grid, values, strict=True)) for values in itertools.product(*variant.grid.values())
    ]
    layers: list[int | None] = [None]
    if "layer" in variant.each:
        try:
            layers = list(range(1, _depth(base) + 1))
        except UserError as fault:
            raise UserError(f"{study._origin.location(('variants', name, 'each'))}: {fault}") from None
    rows = []
    for chosen, layer in itertools.product(choices, layers):
        words: dict[str, Any] = {"layer": layer} if layer is not None else {}
        short = {key.rpartition(".")[2]: value for key, value in chosen.items()}
        title = _titled(name, {**short, **words})
        own = stacked(variant.set, chosen)
        if "task" not in variant.each:
            rows.append(Row(title, name, {ALL: _filled(own, words)}))
            continue
        tasks = list(base.tasks)
        members = {}
        for task in tasks:
            last = [*(one for one in tasks if one != task), task]
            counts = {"evaluate.weights": {one: float(one == task) for one in tasks}}  # which model is its best
            given = _filled(own, {**words, "task": task, "last": last})
            members[task] = given if "tasks" in given else {**counts, **given}
        rows.append(Row(title, name, members))
    return rows


def _titled(name: str, values: dict[str, Any]) -> str:
    """The row's name with its values in the places it leaves for them, else after it."""
    rest = []
    for key, value in values.items():
        shown = value if isinstance(value, str) else json.dumps(value)
        if f"{{{key}}}" in name:
            name = name.replace(f"{{{key}}}", shown)
        else:
            rest.append(f"{key} {shown}")
    return f"{name} ({', '.join(rest)})" if rest else name


def _filled(value: Any, words: dict[str, Any]) -> Any:
    """'{task}' alone becomes the word itself, whatever its type; within a longer text it is written out."""
    if isinstance(value, dict):
        return {_filled(key, words): _filled(one, words) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, words) for one in value]
    if isinstance(value, str):
        for word, epoch_description in words.items():
            if value == f"{{{word}}}":
                return epoch_description
            value = value.replace(f"{{{word}}}", str(epoch_description))
    return value


def _depth(base: Recipe) -> int:
    config = read_config(Path(locate(base.encoder.name, base.encoder.revision).folder))
    return int(config.get("num_hidden_layers", config.get("n_layers", 0)))
