"""Where a recipe's or a study's values stand: file and line by key."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

KeyPath = tuple[str | int, ...]  # a place in a recipe: ("tasks", "sts", "train", 0)
COMMAND_LINE = "command line"


@dataclass
class SourceLocations:
    """Where a recipe's values came from, so that a fault found later can still name file and line."""

    file: str = "recipe"
    lines: dict[KeyPath, int] = field(default_factory=dict)
    overridden: set[KeyPath] = field(default_factory=set)
    overrides_from: str = "overrides"  # what messages call the source of overrides: an argument, or the command line

    def location(self, path: KeyPath) -> str:
        """'recipe.yaml:7: tasks.sts.train', with the line of the nearest key that the file has."""
        key = ".".join(_shown(path))
        for length in range(len(path), 0, -1):
            # a lone source stands in the file without the list that the recipe makes of it
            for location in (path[:length], _names(path[:length])):
                if location in self.overridden:
                    return f"{self.overrides_from}: {key}"
                if location in self.lines:
                    return f"{self.file}:{self.lines[location]}: {key}"
        return f"{self.file}: {key}" if key else self.file

    def line(self, path: KeyPath) -> float:
        """The line to sort by: that of the nearest key that the file has; what stands in no file comes last."""
        for length in range(len(path), 0, -1):
            for location in (path[:length], _names(path[:length])):
                if location in self.overridden:
                    return math.inf
                if location in self.lines:
                    return self.lines[location]
        return math.inf

    def forget_lines(self, path: KeyPath) -> None:
        """A value that was overridden no longer stands in the file."""
        self.lines = {known: line for known, line in self.lines.items() if known[: len(path)] != path}


def _shown(path: KeyPath) -> list[str]:
    """A place as messages write it: phases have numbers from 1, a task's sources have none."""
    steps: list[str] = []
    for step in path:
        if isinstance(step, str):
            steps.append(step)
        elif steps and steps[-1] == "phases":
            steps.append(str(step + 1))
    return steps


def _names(path: KeyPath) -> tuple[str, ...]:
    return tuple(step for step in path if isinstance(step, str))
