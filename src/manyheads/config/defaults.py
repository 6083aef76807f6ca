"""What fills in what a recipe leaves out: the code's defaults, or those of the version that its `defaults` names.

`defaults-0.1.yaml` holds what version 0.1 did where a recipe said nothing. What its values mean never changes. A key
that came later stands there at the value that means "as before", for that is what version 0.1 did.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from manyheads import registry
from manyheads.config.distill import ONLY_FOR_THE_COMMAND
from manyheads.config.keys import EACH, as_dumped, part_families, recipe_keys
from manyheads.config.part import PartConfig
from manyheads.config.recipe import Recipe
from manyheads.config.task import LAYOUT_KEYS
from manyheads.config.yaml_file import QuickLoader

FIRST_VERSION = "0.1"
# keys that change no number, and those of data, which is known by its content
NO_EFFECT = ("name", "description", "imports", "defaults", "pretrain", "checkpoint", "report", "trackers", "output")
NO_EFFECT_IN_DATA = ("root",)
NO_EFFECT_IN_DISTILL = ONLY_FOR_THE_COMMAND
NO_EFFECT_IN_TASKS = ("train", "dev", "test", "unlabelled", *LAYOUT_KEYS, "predictions")

Value = TypeVar("Value")


@dataclass(frozen=True)
class Defaults:
    """The defaults of a version."""

    settings: dict[str, Any]  # 'tasks.*.scale' → 'standard'
    options: dict[str, dict[str, dict[str, Any]]]  # family → part → option → value; every part of that version is there
    task_parts: dict[str, dict[str, Any]]  # 'pooling' → what it depends on → the part; see tasks/part_defaults.py

    def complete(self, family: str, part: PartConfig) -> PartConfig:
        """The part, with this version's value of every option that is open and has another default today."""
        filled: dict[str, Any] = {}
        today = code_options(family, part.name)
        for option, value in self.options.get(family, {}).get(part.name, {}).items():
            if option not in part.options and today.get(option) != value:
                filled[option] = value
        if not filled:
            return part
        options = registry.find(family, part.name).check(filled)
        return PartConfig(name=part.name, options={**part.options, **options}, filled=frozenset(options))


def code_settings() -> dict[str, Any]:
    """The code's defaults of all keys that may change a number."""
    without_effect = {*NO_EFFECT, *(f"data.{key}" for key in NO_EFFECT_IN_DATA)}
    without_effect.update(f"distill.{key}" for key in NO_EFFECT_IN_DISTILL)
    without_effect.update(f"tasks.{EACH}.{key}" for key in NO_EFFECT_IN_TASKS)
    settings: dict[str, Any] = {}
    for key in recipe_keys():
        steps = key.name.split(".")
        above = {".".join(steps[:depth]) for depth in range(1, len(steps) + 1)}
        if key.has_default and not above & without_effect:
            settings[key.name] = key.default
    return settings


def code_options(family: str, name: str) -> dict[str, Any]:
    """The code's defaults of a part's options."""
    options: dict[str, Any] = {}
    for option, field in registry.find(family, name).options.model_fields.items():
        if not field.is_required():
            options[option] = as_dumped(field.get_default(call_default_factory=True))
    return options


def defaults_file(version: str) -> Path:
    return Path(__file__).with_name(f"defaults-{version}.yaml")


@cache
def read_defaults(version: str) -> Defaults:
    """The defaults of an earlier version."""
    content = yaml.load(defaults_file(version).read_text(encoding="utf-8"), Loader=QuickLoader)
    return Defaults(content["settings"], content["options"], content["task_parts"])


def fill_defaults(recipe: Recipe) -> Recipe:
    """The recipe with what it leaves out as in the version that its `defaults` names.

    `model_fields_set` still says what the recipe wrote itself, and so does a part's `filled`.
    """
    if recipe.defaults is None:
        return recipe
    filled = _filled(recipe, "", read_defaults(recipe.defaults))
    if filled.training.budget is not None:  # which the recipe says
        filled.training.__dict__["epochs"] = None
    return filled


def _filled(value: Value, key: str, defaults: Defaults) -> Value:
    filled: Any = value
    if isinstance(value, PartConfig):
        filled = defaults.complete(part_families()[key], value)
    elif isinstance(value, BaseModel):
        filled = _filled_section(value, f"{key}." if key else "", defaults)
    elif isinstance(value, list):
        filled = [_filled(item, f"{key}.{EACH}", defaults) for item in value]
    elif isinstance(value, dict):
        filled = {name: _filled(item, f"{key}.{EACH}", defaults) for name, item in value.items()}
    return filled


def _filled_section(section: BaseModel, prefix: str, defaults: Defaults) -> BaseModel:
    copied = section.model_copy()
    for name, field in type(section).model_fields.items():
        key, value = f"{prefix}{name}", getattr(section, name)
        is_open = name not in section.model_fields_set and key in defaults.settings
        if is_open and as_dumped(value) != defaults.settings[key]:
            value = _read(field, defaults.settings[key])
        copied.__dict__[name] = _filled(value, key, defaults)  # past `model_fields_set`: the recipe did not say it
    return copied


def _read(field: FieldInfo, dumped: Any) -> Any:
    key_type: Any = field.annotation
    if field.metadata:
        key_type = Annotated[(key_type, *field.metadata)]
    return TypeAdapter(key_type).validate_python(dumped)
