"""How often a pass over a task visits the rows of each of its sources, where they have weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from manyheads.seeding import generator


@dataclass(frozen=True)
class SourceVisits:
    """A pass has m = max(1, round(w·n)) visits of a source of n rows and weight w; N = Σ m is the task's size.

    Pass p makes the visits p·m to (p + 1)·m of an endless walk round the source's rows, which stand in one random
    order. After any number P of passes a row has been visited ⌊P·m/n⌋ or ⌈P·m/n⌉ times: with a weight of 2.5 two or
    three times in the first pass, five times after the second. A weight of 1 visits every row once in every pass.
    """

    rows: tuple[np.ndarray, ...]  # of each source, which of the task's rows are its own
    visits: tuple[int, ...]  # of each source, how many a pass has

    @classmethod
    def of(cls, sources: np.ndarray, weights: Sequence[float]) -> SourceVisits | None:
        """`sources` [rows]: which one each row is of. None where every row comes once in every pass."""
        rows: list[np.ndarray] = []
        visits: list[int] = []
        for number, weight in enumerate(weights):
            source_rows = np.flatnonzero(sources == number)
            if len(source_rows):
                rows.append(source_rows)
                visits.append(max(1, round(weight * len(source_rows))))
        if visits == list(map(len, rows)):
            return None
        return cls(tuple(rows), tuple(visits))

    @property
    def size(self) -> int:
        """N, the visits of one pass."""
        return sum(self.visits)

    def rows_of_pass(self, number: int, seed: int, name: str) -> np.ndarray:
        """[N] the rows that a pass visits, source by source; `name`: of the task, or of its rows."""
        pieces: list[np.ndarray] = []
        for source, (source_rows, visits) in enumerate(zip(self.rows, self.visits, strict=True)):
            order = generator(seed, "source", name, source).permutation(len(source_rows))
            places = (number * visits + np.arange(visits)) % len(source_rows)
            pieces.append(source_rows[np.sort(order[places])])
        return np.concatenate(pieces)
