"""What is wrong with a file, as pydantic found it: every fault at once, each with its key and line."""

from __future__ import annotations

import re
import types
import typing
from typing import Annotated, Any

from pydantic import BaseModel, ValidationError

from manyheads.config.keys import EACH, recipe_keys
from manyheads.config.location import KeyPath, SourceLocations
from manyheads.errors import UserError, nearest

# pydantic's name of a fault → the same without the words of its library
EXPECTED = {
    "dict_type": "expected a mapping",
    "model_type": "expected a mapping",
    "list_type": "expected a list",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "string_type": "expected a text",
}


def list_faults(faults: list[str], file: str, code: str = "bad-recipe") -> UserError:
    """One message for all faults of a file."""
    count = f"{len(faults)} faults" if len(faults) > 1 else "a fault"
    lines = "\n".join(f"  {fault}" for fault in faults)
    return UserError(f"{file} has {count}:\n{lines}", code=code)


def explain_faults(error: ValidationError, locations: SourceLocations, model: type[BaseModel]) -> UserError:
    """Every fault that a model found in a file, each with its key and line."""
    faults = [_explain(fault, locations, model) for fault in _join_choices([dict(fault) for fault in error.errors()])]
    return list_faults(faults, locations.file)


CHOICE = re.compile(r"literal\[.*\]|constrained-\w+")  # what pydantic calls a type, behind the key


def _join_choices(faults: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Where a value may be of several types ('annealed', or a number), pydantic has a fault for each: made one."""
    joined: list[dict[str, Any]] = []
    for fault in faults:
        *key, choice = fault["loc"] or ("",)  # nothing: of the whole file
        if joined and joined[-1]["loc"] == tuple(key) and CHOICE.fullmatch(str(choice)):
            joined[-1]["msg"] += " or " + fault["msg"].removeprefix("Input should be ")
        elif fault["type"] != "extra_forbidden" and CHOICE.fullmatch(str(choice)):
            joined.append({**fault, "loc": tuple(key), "type": "choice"})
        else:
            joined.append(fault)
    return joined


def _explain(fault: dict[str, Any], locations: SourceLocations, model: type[BaseModel]) -> str:
    path: KeyPath = fault["loc"]
    if fault["type"] == "extra_forbidden":
        known_keys = _known_keys(path[:-1], model)
        elsewhere = _elsewhere(str(path[-1]), model)
        if elsewhere is None:
            message = f"unknown key.{nearest(str(path[-1]), known_keys)}"
        else:
            message = f"unknown key. Did you mean '{elsewhere}'?{nearest('', known_keys)}"
    elif fault["type"] == "missing":
        message = "missing."
        if path == ("tasks",):
            message = "missing. A recipe needs at least one task with its training data."
    else:
        message = EXPECTED.get(fault["type"], fault["msg"].removeprefix("Value error, "))
        if fault["type"] == "model_type":
            message += f" with {', '.join(sorted(_known_keys(path, model)))}"
        if fault["type"] != "value_error":
            message += f" (found {fault['input']!r})"
    return f"{locations.location(path)}: {message}"


def _elsewhere(key: str, model: type[BaseModel]) -> str | None:
    """Where a key of this name stands: 'training.budget' for 'budget', 'tasks.NAME.label' for 'label'."""
    paths = [known.name.split(".") for known in recipe_keys(model)]
    fitting = [path for path in paths if path[-1] == key and len(path) > 1]
    if not fitting:
        return None
    nearest_path = min(fitting, key=lambda path: (path.count(EACH), len(path)))
    return ".".join(nearest_path).replace(EACH, "NAME")


def _known_keys(path: KeyPath, model: type[BaseModel]) -> list[str]:
    """The keys that a model allows at a place."""
    annotation: Any = model
    for step in path:
        annotation = _strip(annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            annotation = annotation.model_fields[str(step)].annotation
        else:
            annotation = typing.get_args(annotation)[-1]  # dict[str, X] or list[X] → X
    annotation = _strip(annotation)
    return list(annotation.model_fields) if issubclass(annotation, BaseModel) else []


def _strip(annotation: Any) -> Any:
    """X | None → X; Annotated[X, …] → X."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _strip(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return _strip(next(member for member in typing.get_args(annotation) if member is not type(None)))
    return annotation
