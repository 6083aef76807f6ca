"""Windows over a text that is longer than the encoder reads: neighbours overlap, and every token is of one of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

OVERLAP = 0.25  # of a window: a word has at least half of that on either side, if not at an end of the text


@dataclass(frozen=True)
class Window:
    """Tokens `start` to `end` are read; those from `first` to `last` are this window's to answer for."""

    start: int
    end: int
    first: int
    last: int

    def own(self, tokens: np.ndarray) -> np.ndarray:
        """Of tokens, by their number in the text, those that are this window's, by their number in it."""
        own: np.ndarray = tokens[(tokens >= self.first) & (tokens < self.last)] - self.start
        return own


def cut_windows(length: int, room: int) -> list[Window]:
    """A text of so many tokens, in windows of at most `room`; where two overlap, each answers for its half.

    The last one ends with the text. A number of tokens after the last one is the last window's too.
    """
    if length <= room:
        return [Window(0, length, 0, length + 1)]
    step = max(1, room - int(room * OVERLAP))
    starts = [*range(0, length - room, step), length - room]
    windows: list[Window] = []
    for number, start in enumerate(starts):
        first, last = 0, length + 1
        if number:
            first = windows[-1].last
        if number + 1 < len(starts):
            last = (starts[number + 1] + start + room) // 2
        windows.append(Window(start, start + room, first, last))
    return windows
