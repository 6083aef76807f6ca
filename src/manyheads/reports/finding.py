"""A sentence that follows from a run's data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A sentence, and the section that shows it."""

    text: str
    section: str
