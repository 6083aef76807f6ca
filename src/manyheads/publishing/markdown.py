"""Markdown from data: what a user named a task, a class or a file is shown as it is, and formats nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$])")


def code(text: str) -> str:
    """A code span, also of a text with backticks, and inside a table."""
    text = " ".join(text.split()).replace("|", "\\|") or " "
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest else ""
    return f"{fence}{space}{text}{space}{fence}"


def plain(text: str) -> str:
    """A text with nothing that Markdown or HTML would read as theirs."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def prose(text: str) -> str:
    """A sentence of ours, whose words between backticks are code; the rest formats nothing."""
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:  # a backtick that is somebody's own
        return plain(text)
    shown: list[str] = []
    for index, part in enumerate(parts):
        shown.append(code(part) if index % 2 else SPECIAL.sub(r"\\\1", part))
    return "".join(shown)


def number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def table(lines: Sequence[Mapping[str, str]]) -> str:
    """Cells are Markdown already. The keys of the first line are the titles."""
    titles = list(lines[0])
    rows = [titles, ["---"] * len(titles)]
    for line in lines:
        rows.append([line.get(title, "") for title in titles])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def bullets(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def fenced(text: str, language: str = "") -> str:
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.strip()}\n{fence}"


def details(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{content}\n\n</details>"


def as_cells(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Lines that were made for a terminal, as cells of a table."""
    cells: list[dict[str, str]] = []
    for line in lines:
        row: dict[str, str] = {}
        for title, value in line.items():
            row[plain(title)] = number(value) if isinstance(value, float) else plain(str(value))
        cells.append(row)
    return cells
