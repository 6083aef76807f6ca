"""Options of parts that name tasks."""

from __future__ import annotations

from collections.abc import Sequence

from manyheads.errors import nearest


def check_tasks(option: str, named: Sequence[str], tasks: Sequence[str]) -> None:
    """Refuse an option that names a task which the recipe does not have."""
    for name in named:
        if name not in tasks:
            raise ValueError(f"'{option}': no task '{name}'.{nearest(name, tasks)}")
