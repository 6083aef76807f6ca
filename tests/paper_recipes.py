"""The shipped studies' recipes with nothing left open, as text: `make paper-recipes` rewrites the stored copy.

    studies/paper_recipes/scales-small.yaml   a base recipe: every key with its value
    studies/paper_recipes/a8-order.yaml       a study: at each scale what most of its runs have that the base has not,
                                              then what is otherwise in each run

Of a variant with a large grid only the first and the last row are there, and the grid. Data files are not read: the
shipped bases say how many texts a task has, and its labels.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from manyheads.config.defaults import NO_EFFECT, code_options
from manyheads.config.keys import EACH, part_families
from manyheads.config.load import read_recipe
from manyheads.config.part import PartConfig, dump_part, load_part
from manyheads.config.recipe import Recipe
from manyheads.config.task import TaskSettings
from manyheads.config.yaml_file import parse_file
from manyheads.studies.config import SCALES, Study
from manyheads.studies.load import load_study, shipped_studies
from manyheads.studies.transfer import baseline_rows
from manyheads.studies.variants import Row, base_recipe, make_rows, plan_runs
from manyheads.tasks.columns import choose_columns
from manyheads.tasks.part_defaults import FAMILIES, PartDefaults
from manyheads.tasks.resolve import choose_reader, default_parts, load_recipe
from manyheads.tasks.task import Task

FOLDER = Path(__file__).parent / "studies" / "paper_recipes"
DEPTHS = {"smoke": 2, "small": 6, "full": 12}  # layers of the scales' encoders, one of which must be downloaded
BASES = [f"scales/{scale}{reviews}" for scale in SCALES for reviews in ("", "-reviews")]
LARGE_GRID = 20  # rows
MOST = "most runs"
GONE = "(gone)"  # a key of the base that a run does not have
Settings = dict[str, Any]  # dotted key → value


def stored_file(name: str) -> Path:
    """Of a base ('scales/small') or a study ('papers/a8-order')."""
    return FOLDER / f"{name.removeprefix('papers/').replace('/', '-')}.yaml"


def names() -> list[str]:
    return [*BASES, *(name for name in shipped_studies() if not _follows_defaults(name))]


def _follows_defaults(study: str) -> bool:
    """Studies over board and trio ask what today's defaults do; the bases of the others pin those of version 0.1."""
    return load_study(study).base.endswith(("-board", "-trio"))


# --- a recipe with nothing left open ----------------------------------------------------------------------------


def resolved(recipe: Recipe) -> Settings:
    """Every setting that may change a number, by dotted key; a part is one setting with all its options."""
    content = recipe.model_dump(mode="json")
    for key in NO_EFFECT:
        del content[key]
    del content["data"]["root"], content["seed"]
    for name, settings in recipe.tasks.items():
        task = content["tasks"][name]
        del task["predictions"]
        for split in ("train", "dev", "test"):
            if task[split] is not None:
                task[split] = [
                    source.model_dump(mode="json", exclude_defaults=True) for source in getattr(settings, split)
                ]
        task.update(_task_parts(recipe, name, settings))
    if content["phases"] is not None:
        content["phases"] = [_without_nulls(_with_options(phase, f"phases.{EACH}")) for phase in content["phases"]]
    settings = dict(_flat(_with_options(content, ""), ""))
    settings["tasks"] = list(recipe.tasks)
    return settings


def _task_parts(recipe: Recipe, name: str, settings: TaskSettings) -> Settings:
    """A task's parts, those that follow from its data included."""
    columns = choose_columns(settings, settings.train[0], Path())
    reader = choose_reader(settings, columns, settings.labels or [])
    parts = default_parts(recipe, name, len(columns.text) == 2, reader)
    task = Task(name=name, columns=columns, labels=reader, **parts)
    metrics = settings.metrics or PartDefaults(recipe.defaults).metrics(task)
    dumped: Settings = {key: dump_part(part) for key, part in parts.items()}
    return {**dumped, "metrics": [dump_part(metric) for metric in metrics], "kind": reader.kind}


def _with_options(value: Any, key: str) -> Any:
    """With every option of every part written out."""
    family = part_families().get(key)
    if family is not None and value is not None:
        part = load_part(value)
        return dump_part(PartConfig(name=part.name, options={**code_options(family, part.name), **part.options}))
    if isinstance(value, list):
        return [_with_options(item, f"{key}.{EACH}") for item in value]
    if isinstance(value, dict):
        steps = {name: EACH if key == "tasks" else name for name in value}
        return {name: _with_options(item, f"{key}.{steps[name]}".strip(".")) for name, item in value.items()}
    return value


def _without_nulls(mapping: Settings) -> Settings:
    return {key: value for key, value in mapping.items() if value is not None and value is not False}


def _flat(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    last = key.rpartition(".")[2]
    is_leaf = last in (*FAMILIES, "sampler", "losses", "gradients", "labels", "weights", "layer_factors")
    if not isinstance(value, dict) or is_leaf:
        yield key, value
        return
    for name, item in value.items():
        yield from _flat(item, f"{key}.{name}" if key else name)


# --- a study's runs ---------------------------------------------------------------------------------------------


@cache
def base_settings(name: str) -> Settings:
    return resolved(load_recipe(name))


def run_settings(study: Study) -> dict[str, Settings]:
    """'row: task' → settings, of the first seed."""
    depth = DEPTHS[study._scale]
    with patch("manyheads.studies.variants._encoder_depth", lambda base: depth), _quick_loading():
        base = base_recipe(study, {})
        rows = make_rows(study, base)
        reference = next(row for row in rows if row.name == (study.to or rows[0].name))
        if study.equal == ["examples"]:  # else their length follows from the data
            rows += baseline_rows(study, base, reference, {})
        first_seed = study.model_copy(update={"seeds": study.seed_list[:1]})
        runs = plan_runs(first_seed, _without_the_middle(rows), {})
    return {planned.label.removesuffix(f", seed {planned.seed}"): resolved(planned.recipe) for planned in runs}


def _without_the_middle(rows: list[Row]) -> list[Row]:
    """Of the rows of a variant's large grid the first and the last."""
    kept: list[Row] = []
    for _, group in groupby(rows, key=lambda row: row.variant):
        variant_rows = list(group)
        kept += variant_rows if len(variant_rows) <= LARGE_GRID else [variant_rows[0], variant_rows[-1]]
    return kept


@contextmanager
def _quick_loading() -> Iterator[None]:
    """Parse a file once, and leave it to other tests whether parts go together."""
    parsed = cache(parse_file)
    with (
        patch("manyheads.config.load.parse_file", lambda file: copy.deepcopy(parsed(file))),
        patch("manyheads.studies.variants.load_recipe", read_recipe),
    ):
        yield


def _in_most(runs: list[Settings], base: Settings) -> Settings:
    """What the most runs have that the base has not."""
    common: Settings = {}
    for key in {key: None for run in runs for key in run}:
        values = [json.dumps(run[key]) for run in runs if key in run]
        value, count = Counter(values).most_common(1)[0]
        if count > 1 or len(runs) == 1:
            common[key] = json.loads(value)
    return {key: value for key, value in common.items() if key not in base or base[key] != value}


def _own(run: Settings, common: Settings) -> Settings:
    """What a run has that is not in common; keys of tasks that it leaves out are not worth a line."""
    own = {key: value for key, value in run.items() if key not in common or common[key] != value}
    for key in common:
        of_another_task = key.startswith("tasks.") and key.split(".")[1] not in run["tasks"]
        if key not in run and not of_another_task:
            own[key] = GONE
    return own


# --- text -------------------------------------------------------------------------------------------------------


def as_text(name: str) -> str:
    """What the stored file of a base or a study must be."""
    if name in BASES:
        return "".join(_lines(base_settings(name), ""))
    lines: list[str] = []
    for scale in SCALES:
        study = load_study(name).at(scale)
        base, runs = base_settings(study.base), run_settings(study)
        common = _in_most(list(runs.values()), base)
        lines += [f"{scale}:\n", f"  base: {study.base}\n", f"  seeds: {study.seed_list}\n"]
        for variant, content in study.variants.items():
            if content.grid:
                lines += [f"  grid of {json.dumps(variant, ensure_ascii=False)}:\n", *_lines(content.grid, "    ")]
        lines += [f"  {MOST}:{'' if common else ' {}'}\n", *_lines(common, "    "), "  runs:\n"]
        for label, run in runs.items():
            own = _own(run, {**base, **common})
            lines += [f"    {json.dumps(label, ensure_ascii=False)}:{'' if own else ' {}'}\n", *_lines(own, "      ")]
    return "".join(lines)


def _lines(settings: Settings, indent: str) -> list[str]:
    return [f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in settings.items()]


def differences(name: str, stored: str) -> list[str]:
    """Where a stored text is not that of today: 'papers/a5-layers: small, Layer 1: sst, training.epochs: stored 2…'."""
    stored_settings = _by_run(name, stored, lambda base: stored_file(base).read_text(encoding="utf-8"))
    settings_now = _by_run(name, as_text(name), as_text)
    lines: list[str] = []
    for path in {**stored_settings, **settings_now}:
        left, right = stored_settings.get(path, GONE), settings_now.get(path, GONE)
        if left != right:
            lines.append(f"{name}: {', '.join(path)}: stored {left}, now {right}")
    return lines


def _by_run(name: str, text: str, base_text: Callable[[str], str]) -> dict[tuple[str, ...], Any]:
    """(scale, run, key) → value; of a base (key)."""
    content = _parse(text)
    if name in BASES:
        return {(key,): value for key, value in content.items()}
    settings: dict[tuple[str, ...], Any] = {}
    for scale, study in content.items():
        base = _parse(base_text(study["base"]))
        for section, values in study.items():
            if section == "runs":
                for label, own in values.items():
                    for key, value in {**base, **study[MOST], **own}.items():
                        settings[scale, label, key] = value
            elif section != MOST:
                settings[scale, section] = values
    return settings


def _parse(text: str) -> Any:
    return yaml.load(text, Loader=yaml.BaseLoader)  # values stay text: YAML and JSON disagree on numbers


def rewrite() -> None:
    FOLDER.mkdir(exist_ok=True)
    for file in FOLDER.glob("*.yaml"):
        file.unlink()
    for name in names():
        stored_file(name).write_text(as_text(name), encoding="utf-8")


if __name__ == "__main__":
    rewrite()
