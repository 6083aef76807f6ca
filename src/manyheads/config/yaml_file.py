"""YAML files, with the line of every key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from manyheads.config.location import KeyPath, SourceLocations
from manyheads.errors import UserError

EXAMPLE = "tasks:\n    reviews:\n      train: reviews.csv"


class RecipeLoader(yaml.SafeLoader):
    """YAML in which 'yes', 'no', 'on' and 'off' are words, as labels may be; booleans are 'true' and 'false'."""


_BOOL = "tag:yaml.org,2002:bool"
RecipeLoader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL or letter in "tTfF"]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class QuickLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The same by libyaml, where PyYAML was built with it: ten times as fast."""

    yaml_implicit_resolvers = RecipeLoader.yaml_implicit_resolvers


def _parse(text: str) -> tuple[yaml.Node | None, Any]:
    """The nodes of a text, which know their lines, and its content."""
    try:
        return yaml.compose(text, Loader=QuickLoader), yaml.load(text, Loader=QuickLoader)
    except (yaml.YAMLError, ValueError, RecursionError):  # said again by PyYAML itself, alike on every machine
        return yaml.compose(text, Loader=RecipeLoader), yaml.load(text, Loader=RecipeLoader)


def parse_file(path: Path, example: str = EXAMPLE) -> tuple[SourceLocations, dict[str, Any]]:
    """A YAML file's content, and on which line each of its keys stands."""
    locations = SourceLocations(path.name)
    try:
        text = path.read_text(encoding="utf-8")
        node, content = _parse(text)
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text file in UTF-8.", code="not-utf-8") from None
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UserError(f"{path.name}{line}: not valid YAML: {error.problem}.", code="bad-yaml") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path.name}: not valid YAML: {error}.", code="bad-yaml") from None
    if not isinstance(content, dict) or node is None:
        raise UserError(f"{path.name}: expected keys and values, such as\n  {example}", code="no-keys")
    repeated: list[str] = []
    try:
        _note_lines(node, (), locations, repeated)
    except RecursionError:
        raise UserError(f"{path.name}: an anchor (&) contains its own alias (*).", code="bad-yaml") from None
    if repeated:
        raise UserError("\n".join(repeated), code="repeated-key")
    return locations, content


def _note_lines(node: yaml.Node, path: KeyPath, locations: SourceLocations, repeated: list[str]) -> None:
    """Remember the line of every key; a key that stands twice would silently lose its first value."""
    if isinstance(node, yaml.MappingNode):
        seen: dict[KeyPath, int] = {}
        for key, value in node.value:
            here = (*path, str(key.value))
            line = key.start_mark.line + 1
            if here in seen:
                what = "task" if path == ("tasks",) else "key"
                repeated.append(
                    f"{locations.file}:{line}: {'.'.join(map(str, here))}: this {what} already stands in line "
                    f"{seen[here]}. Give each {what} a name of its own."
                )
            seen[here] = locations.lines[here] = line
            _note_lines(value, here, locations, repeated)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            locations.lines[*path, index] = value.start_mark.line + 1
            _note_lines(value, (*path, index), locations, repeated)
