"""The one error a user may see: what is wrong, where, what was expected, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A fault that the user can mend. The command line shows its message alone and exits with code 2."""


def nearest(wrong: str, known: Iterable[str]) -> str:
    """The sentence that helps after an unknown name: the closest valid one, then all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(wrong, names, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"{hint} Known: {', '.join(names) or 'none'}."
