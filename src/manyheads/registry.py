"""Name → part. A part is a class or function that a recipe can name.

    @register("losses", "mse", paper="all")
    class MeanSquaredError: ...

Positional arguments of a part's constructor are supplied by manyheads; keyword-only arguments are the options
that a recipe may set, and their type hints are how a recipe's values are checked.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from manyheads.errors import UserError, nearest

# types of options, for parts to name: a recipe's value outside is refused
Share = Annotated[float, Field(ge=0, lt=1)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class NamesTask:
    """Marks a type whose values are names of the recipe's tasks."""


# an option of this type names a task: `order: list[TaskName]`, `weights: dict[TaskName, float]`. Names are checked
# against the recipe's tasks, and a task that is left out on the command line is left out there too
TaskName = Annotated[str, NamesTask()]

# family → the module whose import registers its parts, in the order in which data flows through them
FAMILIES = {
    "kinds": "manyheads.parts.kinds",
    "samplers": "manyheads.parts.samplers",
    "encodings": "manyheads.parts.encodings",
    "pooling": "manyheads.parts.pooling",
    "heads": "manyheads.parts.heads",
    "outputs": "manyheads.parts.outputs",
    "losses": "manyheads.parts.losses",
    "metrics": "manyheads.parts.metrics",
    "scalarizers": "manyheads.parts.scalarizers",
    "aggregators": "manyheads.parts.aggregators",
    "regularisers": "manyheads.parts.regularisers",
}

_parts: dict[tuple[str, str], Part] = {}
Factory = TypeVar("Factory", bound=Callable[..., Any])


@dataclass(frozen=True)
class Part:
    """One registered strategy."""

    family: str
    name: str
    paper: str  # letters of the papers it comes from, as in docs/parts.md; "" where it is ours
    factory: Any  # the class or function itself

    @property
    def summary(self) -> str:
        """The first line of the part's docstring."""
        return (inspect.getdoc(self.factory) or "").split("\n")[0]

    @cached_property
    def options(self) -> type[BaseModel]:
        """The part's keyword-only arguments as a pydantic model: their names, types and defaults."""
        init = self.factory.__init__ if inspect.isclass(self.factory) else self.factory
        options: dict[str, inspect.Parameter] = {}
        annotations: dict[str, Any] = {}
        # of the options only: what is supplied to a part may be typed by names that are not imported when it runs
        for name, parameter in inspect.signature(init).parameters.items():
            if parameter.kind is parameter.KEYWORD_ONLY:
                options[name] = parameter
                if parameter.annotation is not parameter.empty:
                    annotations[name] = parameter.annotation
        scope = getattr(init, "__globals__", {})  # a class without a constructor has object's
        hints = get_type_hints(SimpleNamespace(__annotations__=annotations), scope, include_extras=True)
        fields: dict[str, Any] = {}
        for name, parameter in options.items():
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (hints.get(name, Any), default)
        return create_model(self.name, __config__=ConfigDict(extra="forbid"), **fields)

    def check(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options with their values converted to the right types, or a ValueError that names the fault."""
        try:
            checked = self.options(**options)
        except ValidationError as error:
            raise ValueError("; ".join(self._explain(dict(fault)) for fault in error.errors())) from None
        return {name: getattr(checked, name) for name in options}

    def _explain(self, fault: dict[str, Any]) -> str:
        option = str(fault["loc"][0])
        if fault["type"] == "extra_forbidden":
            return f"'{self.name}' has no option '{option}'.{nearest(option, self.options.model_fields)}"
        if fault["type"] == "missing":
            return f"'{self.name}' needs the option '{option}'."
        return f"option '{option}' of '{self.name}': {fault['msg']} (found {fault['input']!r})"


def register(family: str, name: str, *, paper: str = "") -> Callable[[Factory], Factory]:
    """Decorator: make a class or function available to recipes as ``name``."""
    if family not in FAMILIES:
        raise ValueError(f"unknown family '{family}'.{nearest(family, FAMILIES)}")

    def add(factory: Factory) -> Factory:
        if (family, name) in _parts:
            raise ValueError(f"{family} already has a part named '{name}'")
        _parts[family, name] = Part(family, name, paper, factory)
        return factory

    return add


def parts_of_module(module: str) -> list[Part]:
    """The parts that a module defines."""
    return [part for part in _parts.values() if part.factory.__module__ == module]


def forget_module(module: str) -> None:
    """Unregister what a module defines, so that its file can be run again."""
    for part in parts_of_module(module):
        del _parts[part.family, part.name]


def parts(family: str | None = None) -> list[Part]:
    """All registered parts (of one family), in the order of FAMILIES and then by name."""
    if family is not None and family not in FAMILIES:
        raise UserError(f"Unknown family '{family}'.{nearest(family, FAMILIES)}", code="unknown-family")
    families = [family] if family else list(FAMILIES)
    for family_name in families:
        importlib.import_module(FAMILIES[family_name])
    return sorted(
        (part for part in _parts.values() if part.family in families),
        key=lambda part: (families.index(part.family), part.name),
    )


def find(family: str, name: str) -> Part:
    """The part of that name. An unknown name is a ValueError that lists the valid ones and the nearest."""
    part = _parts.get((family, name))
    if part is not None:
        return part
    known = {part.name: part for part in parts(family)}
    if name not in known:
        singular = {"losses": "loss"}.get(family, family.removesuffix("s"))
        raise ValueError(f"unknown {singular} '{name}'.{nearest(name, known)}")
    return known[name]
