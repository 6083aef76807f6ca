"""One batch of every task per round."""

from __future__ import annotations

from manyheads.registry import register
from manyheads.sampling.base import Batch, Passes


@register("samplers", "batch-round-robin", paper="A")
class BatchRoundRobin:
    """One batch of each task per round, one optimizer step per round.

    `until`: an epoch ends with the 'largest' task (the others are passed over again), with the 'smallest' (the
    others go on where they stopped in the next epoch), or with the task of that name.
    """

    def __init__(
        self,
        sizes: dict[str, int],
        batch_sizes: dict[str, int],
        seed: int,
        rows: dict[str, str | None] | None = None,
        *,
        until: str = "largest",
    ) -> None:
        shared = rows or {}
        self.passes = [Passes(task, size, batch_sizes[task], seed, shared.get(task)) for task, size in sizes.items()]
        batches = {one.task: one.batches for one in self.passes}
        ends = {**batches, "largest": max(batches.values()), "smallest": min(batches.values())}
        if until not in ends:
            raise ValueError(f"'until' is 'largest', 'smallest' or a task's name, found '{until}'")
        self._rounds = ends[until]

    def rounds(self, epoch: int) -> int:
        return self._rounds

    def round(self, index: int) -> list[Batch]:
        return [one.batch(index) for one in self.passes]
