"""Where a recipe names its own tasks: found by type (`registry.TaskName`), in its keys and in the options of parts.

So a user's own part may name tasks too: the names are checked, and tasks left out on the command line are left out.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from manyheads import registry
from manyheads.config.location import KeyPath
from manyheads.config.part import PartConfig, PartFamily
from manyheads.config.recipe import Recipe
from manyheads.config.training import PhaseSettings
from manyheads.registry import NamesTask

GONE = object()  # what is left of a value that named nothing but tasks that were left out
ONLY_FOR = "tasks"  # the option of a part, or the key of a phase, that says for which tasks it is


def named_tasks(recipe: Recipe) -> Iterator[tuple[KeyPath, str]]:
    """Every place that names a task, and the name."""
    yield from _names(recipe, Recipe, (), ())


def without_tasks(recipe: Recipe, left_out: set[str]) -> Recipe:
    """The recipe without mentions of some tasks. A key that named no other task goes back to its default; but a part
    or a phase that was for no other task goes with it, for its default is all tasks."""
    remaining = _without(recipe, Recipe, (), left_out)
    assert isinstance(remaining, Recipe)
    remaining._locations = recipe._locations
    return remaining


def _names(value: Any, annotation: Any, markers: tuple[Any, ...], path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    annotation, markers = _plain(annotation, markers, value)
    if isinstance(value, str):
        if _names_a_task(markers):
            yield path, value
        return
    for child_path, child, child_annotation, child_markers in _children(value, annotation, markers):
        yield from _names(child, child_annotation, child_markers, (*path, *child_path))


def _without(value: Any, annotation: Any, markers: tuple[Any, ...], left_out: set[str]) -> Any:
    annotation, markers = _plain(annotation, markers, value)
    if isinstance(value, str):
        return GONE if _names_a_task(markers) and value in left_out else value
    if isinstance(value, PartConfig):
        return _part_without(value, markers, left_out)
    if isinstance(value, BaseModel):
        return _model_without(value, left_out)
    if isinstance(value, list | dict) and value:
        return _collection_without(value, annotation, markers, left_out)
    return value


def _collection_without(value: Any, annotation: Any, markers: tuple[Any, ...], left_out: set[str]) -> Any:
    kept_list: list[Any] = []
    kept_entries: dict[Any, Any] = {}
    kept_keys: set[Any] = set()
    for path, child, child_annotation, child_markers in _children(value, annotation, markers):
        kept_child = _without(child, child_annotation, child_markers, left_out)
        if kept_child is GONE:
            continue
        kept_list.append(kept_child)
        if kept_child is path[-1]:  # a key of a mapping is a child too
            kept_keys.add(kept_child)
        else:
            kept_entries[path[-1]] = kept_child
    if isinstance(value, list):
        return kept_list or GONE
    # an entry stays if both its key and its value do
    return {key: child for key, child in kept_entries.items() if key in kept_keys} or GONE


def _part_without(value: PartConfig, markers: tuple[Any, ...], left_out: set[str]) -> Any:
    options = {}
    for path, option, annotation, option_markers in _children(value, None, markers):
        remaining = _without(option, annotation, option_markers, left_out)
        if remaining is not GONE:
            options[path[-1]] = remaining
        elif path[-1] == ONLY_FOR:
            return GONE
    return value.model_copy(update={"options": options}) if options != value.options else value


def _model_without(value: BaseModel, left_out: set[str]) -> Any:
    changes = {}
    for name, field in type(value).model_fields.items():
        before = getattr(value, name)
        remaining = _without(before, field.annotation, tuple(field.metadata), left_out)
        if remaining is GONE:
            if name == ONLY_FOR and isinstance(value, PhaseSettings):
                return GONE
            remaining = _nothing_in_place_of(before, field)
        if remaining is not before and remaining != before:
            changes[name] = remaining
    return value.model_copy(update=changes) if changes else value


def _nothing_in_place_of(before: Any, field: FieldInfo) -> Any:
    """No parts in place of some, where a phase has others than the recipe; of all else the default."""
    if isinstance(before, list) and isinstance(before[0], PartConfig):
        return []
    return field.get_default(call_default_factory=True)


Child = tuple[KeyPath, Any, Any, tuple[Any, ...]]  # where it stands, its value, its type, what its type is marked with


def _children(value: Any, annotation: Any, markers: tuple[Any, ...]) -> Iterator[Child]:
    if isinstance(value, PartConfig):
        families = [marker.family for marker in markers if isinstance(marker, PartFamily)]
        if families:
            options = registry.find(families[0], value.name).options.model_fields
            for name, option in value.options.items():
                yield (name,), option, options[name].annotation, tuple(options[name].metadata)
    elif isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            yield (name,), getattr(value, name), field.annotation, tuple(field.metadata)
    elif isinstance(value, list):
        (item_type,) = typing.get_args(annotation) or (Any,)
        for index, item in enumerate(value):
            yield (index,), item, item_type, ()
    elif isinstance(value, dict):
        key_type, item_type = typing.get_args(annotation) or (Any, Any)
        for key, item in value.items():
            yield (key,), key, key_type, ()
            yield (key,), item, item_type, ()


def _plain(annotation: Any, markers: tuple[Any, ...], value: Any) -> tuple[Any, tuple[Any, ...]]:
    """Annotated[X, marker] → X and its markers; X | None → the member that fits the value."""
    while True:
        origin = typing.get_origin(annotation)
        if origin is Annotated:
            annotation, *extra = typing.get_args(annotation)
            markers = (*markers, *extra)
        elif origin in (typing.Union, types.UnionType):
            annotation = _fitting_member(typing.get_args(annotation), value)
        else:
            return annotation, markers


def _fitting_member(members: tuple[Any, ...], value: Any) -> Any:
    for member in members:
        if typing.get_origin(member) is Literal and value in typing.get_args(member):
            return member  # `until: largest` names no task
    for member in members:
        plain = member
        while typing.get_origin(plain) is Annotated:
            plain = typing.get_args(plain)[0]
        plain = typing.get_origin(plain) or plain
        if isinstance(plain, type) and isinstance(value, plain):
            return member
    return Any


def _names_a_task(markers: tuple[Any, ...]) -> bool:
    return any(isinstance(marker, NamesTask) for marker in markers)
