"""Every key of a recipe, found by type: its default, and the family of parts that it names.

A key is written with '*' where names or numbers stand: `tasks.*.scale`, `phases.*.combine.losses`, `regularise.*`.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from manyheads.config.part import PartConfig, PartFamily, dump_part
from manyheads.config.recipe import Recipe

EACH = "*"


@dataclass(frozen=True)
class RecipeKey:
    """One key of a recipe."""

    name: str
    field: FieldInfo
    section: bool  # it always holds keys of its own, so its default is theirs

    @property
    def has_default(self) -> bool:
        return not self.section and not self.field.is_required()

    @property
    def default(self) -> Any:
        """As a recipe's dump would have it."""
        return as_dumped(self.field.get_default(call_default_factory=True))


def as_dumped(value: Any) -> Any:
    """A value as it stands in a recipe's dump: parts by name, tuples as lists."""
    if isinstance(value, PartConfig):
        return dump_part(value)
    if isinstance(value, list):
        return [as_dumped(item) for item in value]
    return to_jsonable_python(value)


def recipe_keys(model: type[BaseModel] = Recipe, prefix: str = "") -> Iterator[RecipeKey]:
    """The keys in the order of the code, sections before what stands in them."""
    for name, field in model.model_fields.items():
        inside, repeated = _inside(field.annotation, field.metadata)
        section_model = inside if isinstance(inside, type) else None
        may_be_null = type(None) in typing.get_args(field.annotation)
        is_section = isinstance(field.default, BaseModel) and not isinstance(field.default, PartConfig)
        always_there = is_section and not may_be_null
        yield RecipeKey(f"{prefix}{name}", field, section=always_there)
        if section_model is not None:
            step = f".{EACH}." if repeated else "."
            yield from recipe_keys(section_model, f"{prefix}{name}{step}")


@cache
def part_families() -> dict[str, str]:
    """The keys that hold a part → its family."""
    families: dict[str, str] = {}
    for key in recipe_keys():
        inside, repeated = _inside(key.field.annotation, key.field.metadata)
        if isinstance(inside, PartFamily):
            families[f"{key.name}.{EACH}" if repeated else key.name] = inside.family
    return families


def _inside(annotation: Any, markers: Sequence[Any]) -> tuple[type[BaseModel] | PartFamily | None, bool]:
    """What a key holds, a part or a section of its own, and whether it may hold several."""
    for marker in markers:
        if isinstance(marker, PartFamily):
            return marker, False
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation is not PartConfig:
        return annotation, False
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _inside(arguments[0], arguments[1:])
    if origin in (list, dict):
        return _inside(arguments[-1], ())[0], True
    if origin in (typing.Union, types.UnionType):
        for member in arguments:
            inside, repeated = _inside(member, ())
            if inside is not None:
                return inside, repeated
    return None, False
