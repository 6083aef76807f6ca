"""Signals that ask a long job to stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """SIGINT and SIGTERM are noted, so that the step can be finished and saved; a second one is obeyed at once."""
    asked: list[int] = []
    watched = (signal.SIGINT, signal.SIGTERM)
    alone = os.environ.get("WORLD_SIZE", "1") == "1"  # torchrun passes a signal on several times
    before = {number: signal.getsignal(number) for number in watched}

    def note(number: int, frame: Any) -> None:
        asked.append(number)
        for one in watched if alone else ():
            signal.signal(one, before[one])

    try:
        for number in watched:
            signal.signal(number, note)
    except ValueError:  # not the main thread: whoever runs us handles signals
        yield asked
        return
    try:
        yield asked
    finally:
        for number in watched:
            signal.signal(number, before[number])
