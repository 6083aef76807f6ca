"""A batch of every task in turn: one class, and where each order stops."""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal

import numpy as np

from manyheads.parts.samplers.base import Batch, Epochs, Passes, SamplerInput
from manyheads.registry import TaskName, register
from manyheads.seeding import generator

Step = Literal["round", "batch"]
Draw = Literal["fresh", "fixed"]
EpochEnd = Literal["largest", "smallest"] | TaskName


class FreshSample:
    """Batches of a task of which every epoch takes a fresh random part, each example at most once.

    With `draw: fixed` all epochs take the part that the first does, each in an order of its own.
    """

    def __init__(self, sampler_input: SamplerInput, task: str, examples: int, draw: Draw = "fresh") -> None:
        self.sampler_input, self.task, self.seed = sampler_input, task, sampler_input.seed
        self.size = sampler_input.sizes[task]
        self.batch_size = sampler_input.batch_sizes[task]
        self.examples = min(examples, self.size)
        self.rows_name = sampler_input.rows_name(task)
        self.draw = draw
        self._epoch = -1
        self._drawn = np.empty(0, dtype=np.int64)

    @property
    def batches(self) -> int:
        return -(-self.examples // self.batch_size)

    def batch(self, number: int) -> Batch:
        epoch, location = divmod(number, self.batches)
        if epoch != self._epoch:
            part_of = 0 if self.draw == "fixed" else epoch
            part = generator(self.seed, "sample", self.rows_name, part_of).permutation(self.size)[: self.examples]
            if self.draw == "fixed" and epoch:
                part = part[generator(self.seed, "sample order", self.rows_name, epoch).permutation(self.examples)]
            self._drawn, self._epoch = self.sampler_input.rows_at(self.task, part_of, part), epoch
        return Batch(self.task, self._drawn[location * self.batch_size : (location + 1) * self.batch_size])


class RoundRobin(Epochs):
    """R rounds an epoch, of which task i is in m_i, spread evenly: in round r if ⌊(r + 1)·m_i/R⌋ > ⌊r·m_i/R⌋.

    A task goes on in the next epoch where it stopped. With `step: batch` every batch is a round, and so an optimizer
    step, of its own.
    """

    def __init__(
        self,
        sampler_input: SamplerInput,
        streams: list[Passes | FreshSample],
        counts: list[int],
        rounds: int,
        step: Step,
    ) -> None:
        self.streams, self.counts, self.rounds, self.step = streams, counts, rounds, step
        self.epochs = [rounds if step == "round" else sum(counts)] * sampler_input.epochs

    def round(self, index: int) -> list[Batch]:
        epoch, location = self.location(index)
        if self.step == "round":
            return self._batches(epoch, location)
        turn = bisect_right(range(self.rounds), location, key=self._batches_before) - 1
        return [self._batches(epoch, turn)[location - self._batches_before(turn)]]

    def _batches(self, epoch: int, turn: int) -> list[Batch]:
        batches = []
        for stream, count in zip(self.streams, self.counts, strict=True):
            number = turn * count // self.rounds
            if (turn + 1) * count // self.rounds > number:
                batches.append(stream.batch(epoch * count + number))
        return batches

    def _batches_before(self, turn: int) -> int:
        return sum(turn * count // self.rounds for count in self.counts)


def _every_round(sampler_input: SamplerInput) -> list[Passes | FreshSample]:
    return [Passes(sampler_input, task) for task in sampler_input.sizes]


@register("samplers", "batch-round-robin", paper="A")
class BatchRoundRobin(RoundRobin):
    """One batch of each task per round, and one optimizer step per round.

    `until`: an epoch ends with the 'largest' task (the others are passed over again), with the 'smallest' (the
    others go on where they stopped in the next epoch), or with the task of that name. `step`: a step per 'round' or
    per 'batch'.
    """

    def __init__(self, sampler_input: SamplerInput, *, until: EpochEnd = "largest", step: Step = "round") -> None:
        batches = {task: sampler_input.batches(task) for task in sampler_input.sizes}
        ends = {**batches, "largest": max(batches.values()), "smallest": min(batches.values())}
        if until not in ends:
            raise ValueError(f"'until' is 'largest', 'smallest' or a task's name, found '{until}'")
        rounds = ends[until]
        super().__init__(sampler_input, _every_round(sampler_input), [rounds] * len(batches), rounds, step)
        which = f"the {until} task" if until in ("largest", "smallest") else f"task '{until}'"
        self.epoch_description = f"An epoch is one pass over {which}; the others run beside it, batch by batch."


@register("samplers", "max-size-cycle", paper="E")
class MaxSizeCycle(BatchRoundRobin):
    """Batch round robin until the largest task ends; the small ones are passed over again and again.

    Relations: this is `batch-round-robin` with `until: largest`, under paper E's name.
    """

    def __init__(self, sampler_input: SamplerInput, *, step: Step = "round") -> None:
        super().__init__(sampler_input, until="largest", step=step)


@register("samplers", "sampled-round-robin", paper="E")
class SampledRoundRobin(RoundRobin):
    """Batch round robin until all but the largest task have ended; of that one a fresh random sample each epoch."""

    def __init__(self, sampler_input: SamplerInput, *, step: Step = "round") -> None:
        large = sampler_input.largest
        small = [
            sampler_input.batches(task)
            for task in sampler_input.sizes
            if task != large and not sampler_input.same_rows(task, large)
        ]
        rounds = max(small, default=sampler_input.batches(large))
        sampled = {task for task in sampler_input.sizes if task == large or sampler_input.same_rows(task, large)}
        streams: list[Passes | FreshSample] = [
            FreshSample(sampler_input, task, rounds * sampler_input.batch_sizes[task])
            if task in sampled
            else Passes(sampler_input, task)
            for task in sampler_input.sizes
        ]
        super().__init__(sampler_input, streams, [rounds] * len(streams), rounds, step)
        others = "the largest of the other tasks" if small else "the only task"
        self.epoch_description = f"An epoch is one pass over {others}; of '{large}' it takes a fresh random sample."
