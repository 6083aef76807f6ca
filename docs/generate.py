"""Rewrite the parts of README and docs that are generated from the code: `make docs`.

A generated block stands between <!-- NAME --> and <!-- end NAME -->; a test checks that every block is up to date.
"""

from __future__ import annotations

import re
import typing
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from manyheads.recipe import Choice, Recipe
from manyheads.registry import parts

ROOT = Path(__file__).resolve().parents[1]
FILES = ("README.md", "docs/recipe.md")


def parts_table() -> str:
    lines = ["| family | name | what it is | paper |", "|---|---|---|---|"]
    lines += [
        f"| {part.family} | `{part.name}` | {part.summary.replace('|', chr(92) + '|')} | {part.paper} |"
        for part in parts()
    ]
    return "\n".join(lines)


def keys_table(model: type[BaseModel] = Recipe, prefix: str = "") -> str:
    lines = ["| key | default | what it says |", "|---|---|---|"] if not prefix else []
    for name, field in model.model_fields.items():
        inner = _model(field.annotation)
        key = f"{prefix}{name}"
        shown = "" if field.is_required() or inner else f"`{_default(field.default)}`"
        what = f"**{field.description}**" if inner else field.description
        lines.append(f"| `{key}` | {shown} | {' '.join(str(what).split()).replace('|', chr(92) + '|')} |")
        if inner:
            lines.append(keys_table(inner, f"{key}.NAME." if name == "tasks" else f"{key}."))
    return "\n".join(lines)


def _default(value: Any) -> str:
    if isinstance(value, Choice):
        return value.name
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value) or "''"


def _model(annotation: Any) -> type[BaseModel] | None:
    """The section that a key opens, if it opens one."""
    found = [annotation, *typing.get_args(annotation)]
    sections = [one for one in found if isinstance(one, type) and issubclass(one, BaseModel) and one is not Choice]
    return sections[0] if sections else None


BLOCKS = {"parts": parts_table, "keys": keys_table}


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
