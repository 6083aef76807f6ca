"""Keys that version 0.1 called otherwise.

A recipe with an old key is refused, and the message names the new one. The recipe of a run that version 0.1 trained is
read with its keys renamed, and a run's identity is still computed with the old names, so that results exported then
still count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from manyheads.config.location import KeyPath

EACH = "*"  # any task, any phase
LEARNT_WEIGHTS = {"rate": "learning_rate", "only": "weighted_tasks"}  # options of uncertainty, liebel-korner, imtl-l

# where a mapping stands → {old key: new key}
RENAMED: dict[tuple[str, ...], dict[str, str]] = {
    ("training",): {
        "train": "trainable",
        "only": "active_tasks",
        "clip": "max_grad_norm",
        "head_rate": "head_learning_rate",
        "layer_rates": "layer_learning_rates",
    },
    ("phases", EACH): {"train": "trainable"},
    ("tasks", EACH): {"comes_back": "resume_margin"},
    ("combine",): LEARNT_WEIGHTS,
    ("combine", "losses"): LEARNT_WEIGHTS,
    ("phases", EACH, "combine"): LEARNT_WEIGHTS,
    ("phases", EACH, "combine", "losses"): LEARNT_WEIGHTS,
}


def find_old_keys(content: Any) -> Iterator[tuple[KeyPath, str]]:
    """Every old key in a recipe's content: where it stands, and what it is called now."""
    for pattern, names in RENAMED.items():
        for path, mapping in _mappings(content, pattern):
            for old_name, new_name in names.items():
                if old_name in mapping:
                    yield (*path, old_name), new_name


def with_new_keys(content: Any) -> None:
    """Rename the old keys of a recipe's content, in place."""
    for pattern, names in RENAMED.items():
        _rename(content, pattern, names)


def with_old_keys(content: Any) -> None:
    """The inverse: the content as version 0.1 would have written it."""
    for pattern, names in RENAMED.items():
        _rename(content, pattern, {new_name: old_name for old_name, new_name in names.items()})


def _rename(content: Any, pattern: tuple[str, ...], names: dict[str, str]) -> None:
    for _, mapping in list(_mappings(content, pattern)):
        renamed = {names.get(key, key): value for key, value in mapping.items()}
        mapping.clear()
        mapping.update(renamed)


def _mappings(content: Any, pattern: tuple[str, ...], path: KeyPath = ()) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    """The mappings that stand at places like ("tasks", "*")."""
    if not pattern:
        if isinstance(content, dict):
            yield path, content
        return
    step, deeper = pattern[0], pattern[1:]
    children: list[tuple[str | int, Any]] = []
    if isinstance(content, dict):
        children = list(content.items())
    elif isinstance(content, list):
        children = list(enumerate(content))
    for key, child in children:
        if step in (EACH, key):
            yield from _mappings(child, deeper, (*path, key))
