"""What leaves this machine names nothing of it: paths become file names, and what still has one is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError

# an absolute path of at least two steps, also within a sentence; a URL has a letter, ':' or '/' before its slashes
ABSOLUTE = re.compile(r"(?<![\w.:/~-])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\'\"<>|,;]+[/\\]+)+[^\s/\\'\"<>|,;]*")
SHORTEST_ROOT = 2  # steps of a folder that is looked for: '/' and '/data' are parts of too many words


def without_paths(value: Any) -> Any:
    """JSON whose strings have the last step of each absolute path alone; keys stay as they are."""
    if isinstance(value, dict):
        return {key: without_paths(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_paths(item) for item in value]
    if isinstance(value, str):
        return ABSOLUTE.sub(lambda path: _last_step(path.group()), value)
    return value


def _last_step(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def name_of(path: str) -> str:
    """What may be said of a file or folder that a recipe names, relative or not."""
    return _last_step(path) if path else path


def folders_of(recipe: Recipe, run_folder: Path) -> list[str]:
    """Folders of this machine that nothing published may name."""
    named = [str(run_folder.parent), recipe.output, recipe.data.root, str(Path.home())]
    if Path(recipe.encoder.name).exists():
        named.append(recipe.encoder.name)
    for other in (recipe.init, recipe.extends):
        named.append(other)
    folders: set[str] = set()
    for name in named:
        if name is None:
            continue
        for folder in (Path(name).expanduser().absolute(), Path(name).expanduser().resolve()):
            if len(folder.parts) > SHORTEST_ROOT:
                folders.add(str(folder))
    return sorted(folders)


def refuse_folders(contents: Iterable[tuple[str, bytes]], folders: list[str]) -> None:
    """Stop where a file's content names one of these folders."""
    for name, content in contents:
        for folder in folders:
            if folder.encode() in content:
                reason = f"names the folder {folder} of this machine, which a published folder must not"
                advice = "Export it again." if name.endswith(".onnx") else "Please report this."
                raise UserError(f"publish: {name}: {reason}. {advice}", code="local-path")
