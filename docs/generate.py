"""Rewrite the parts of README and docs that are generated from the code: `make docs`.

A generated block stands between <!-- NAME --> and <!-- end NAME -->; a test checks that every block is up to date.
"""

from __future__ import annotations

import re
import typing
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from manyheads.config.part import PartConfig
from manyheads.config.recipe import Recipe
from manyheads.registry import parts
from manyheads.studies.config import Study

ROOT = Path(__file__).resolve().parents[1]
FAMILY_PAGES = ("sampling", "encodings", "pooling", "heads", "losses", "regularising", "combining", "metrics")
FILES = ("docs/parts.md", "docs/recipe.md", "docs/studies.md", *(f"docs/{name}.md" for name in FAMILY_PAGES))


def parts_table() -> str:
    lines = ["| family | name | what it is | paper |", "|---|---|---|---|"]
    lines += [f"| {part.family} | `{part.name}` | {_cell(part.summary)} | {part.paper} |" for part in parts()]
    return "\n".join(lines)


def family_table(family: str) -> str:
    """A part per line, with its options and their defaults; of metrics also what they measure and which end is good."""
    metric = family == "metrics"
    lines = [f"| name | what it is |{' labels | best |' if metric else ''} options | paper |"]
    lines.append("|---" * (lines[0].count("|") - 1) + "|")
    for part in parts(family):
        options = ", ".join(f"`{name}: {_default(one.default)}`" for name, one in part.options.model_fields.items())
        fits = f" {', '.join(part.factory.label_types)} | {part.factory.best} |" if metric else ""
        lines.append(f"| `{part.name}` | {_cell(part.summary)} |{fits} {options} | {part.paper} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def keys_table(model: type[BaseModel] = Recipe, prefix: str = "") -> str:
    lines = ["| key | default | what it says |", "|---|---|---|"] if not prefix else []
    for name, field in model.model_fields.items():
        inner = _model(field.annotation)
        key = f"{prefix}{name}"
        shown = "" if field.is_required() or inner else f"`{_default(field.default)}`"
        what = f"**{field.description}**" if inner else field.description
        lines.append(f"| `{key}` | {shown} | {_cell(str(what))} |")
        if inner:
            named = name in ("tasks", "variants", "scales")
            lines.append(keys_table(inner, f"{key}.NAME." if named else f"{key}."))
    return "\n".join(lines)


def _default(value: Any) -> str:
    if isinstance(value, PartConfig):
        return value.name
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value) or "''"


def _model(annotation: Any) -> type[BaseModel] | None:
    """The section that a key opens, if it opens one."""
    found = [annotation, *typing.get_args(annotation)]
    sections = [one for one in found if isinstance(one, type) and issubclass(one, BaseModel) and one is not PartConfig]
    return sections[0] if sections else None


BLOCKS = {
    "parts": parts_table,
    "keys": keys_table,
    "study keys": partial(keys_table, Study),
    **{
        family: partial(family_table, family)
        for family in (
            "kinds",
            "samplers",
            "encodings",
            "pooling",
            "heads",
            "outputs",
            "losses",
            "scalarizers",
            "aggregators",
            "regularisers",
            "metrics",
        )
    },
}


def fill(text: str) -> str:
    """The text with every generated block made anew."""
    for name, make in BLOCKS.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.S)
        text = pattern.sub(lambda found, make=make: found[1] + make() + "\n" + found[2], text)
    return text


if __name__ == "__main__":
    for file in FILES:
        path = ROOT / file
        path.write_text(fill(path.read_text(encoding="utf-8")), encoding="utf-8")
