"""What a user sees when something stops: what is wrong, where, what was expected, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class UserError(Exception):
    """A mistake that the user can correct. The command line prints its message and exits with code 2.

    `code` is short and stable ("unknown-part", "bad-rows"): programs and tests check it instead of the message.
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Interrupted(Exception):
    """A run, or a study, was asked to stop by a signal; it is saved and can be gone on with."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number  # what a shell reports for a process that a signal ended

    @classmethod
    def run(cls, folder: Path, step: int, signal_number: int) -> Interrupted:
        return cls(f"Stopped after step {step:,}, saved. Go on with: manyheads resume {folder}", signal_number)


def nearest(wrong: str, known: Iterable[str]) -> str:
    """The sentence that helps after an unknown name: the closest valid one, then all of them."""
    names = sorted(known)
    begun = [name for name in names if wrong and name.startswith(wrong)]
    close = begun or difflib.get_close_matches(wrong, names, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"{hint} Known: {', '.join(names) or 'none'}."
