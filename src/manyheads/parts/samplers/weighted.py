"""A batch of one task per round, the task drawn at random."""

from __future__ import annotations

import numpy as np

from manyheads.parts.samplers.base import Batch, Epochs, Passes, SamplerInput
from manyheads.registry import Count, NotNegative, TaskName, register
from manyheads.seeding import generator


class Weighted(Epochs):
    """The task of each round is drawn with the probabilities of its epoch; its batches come pass after pass.

    `steps_per_epoch`: rounds in an epoch; by default as many as one pass over every task has.
    """

    def __init__(self, sampler_input: SamplerInput, steps_per_epoch: int | None) -> None:
        self.sampler_input = sampler_input
        self.passes = [Passes(sampler_input, task) for task in sampler_input.sizes]
        self.length = steps_per_epoch or sum(one.batches for one in self.passes)
        self.epochs = [self.length] * sampler_input.epochs
        every = "as many as one pass over every task has" if steps_per_epoch is None else "as asked for"
        batches = "1 batch" if self.length == 1 else f"{self.length:,} batches"
        self.epoch_description = f"An epoch is {batches}, {every}; each is of a task drawn at random."
        self._drawn: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # epoch → tasks, how often each came before in it
        self._before = [np.zeros(len(self.passes), dtype=np.int64)]  # epoch → how often each task came before it

    def probabilities(self, epoch: int) -> np.ndarray:
        """[tasks], adding up to 1."""
        raise NotImplementedError

    def round(self, index: int) -> list[Batch]:
        epoch, location = divmod(index, self.length)
        tasks, earlier = self._draw(epoch)
        task = int(tasks[location])
        return [self.passes[task].batch(int(self._count_before(epoch)[task] + earlier[location]))]

    def _draw(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        if epoch not in self._drawn:
            chances = self.probabilities(epoch)
            tasks = generator(self.sampler_input.seed, "tasks", epoch).choice(len(chances), size=self.length, p=chances)
            came = np.cumsum(tasks[:, None] == np.arange(len(chances)), axis=0)  # [rounds, tasks]
            self._drawn = {epoch: (tasks, came[np.arange(self.length), tasks] - 1)}  # one epoch at a time is kept
        return self._drawn[epoch]

    def _count_before(self, epoch: int) -> np.ndarray:
        while len(self._before) <= epoch:
            tasks, _ = self._draw(len(self._before) - 1)
            self._before.append(self._before[-1] + np.bincount(tasks, minlength=len(self.passes)))
            self._drawn = {}
        return self._before[epoch]


def _by_size(sampler_input: SamplerInput, alpha: float) -> np.ndarray:
    logs = alpha * np.log(np.array(list(sampler_input.sizes.values()), dtype=np.float64))
    weights = np.exp(logs - logs.max())  # a large α overflows otherwise
    return weights / weights.sum()


@register("samplers", "proportional", paper="B")
class Proportional(Weighted):
    """p_i ∝ N_i^α: the task of each batch is drawn by its size; α = 1 is proportional, 0 uniform.

    N_i: examples of task i; α (`alpha`). Paper B calls 2,500 batches an epoch (`steps_per_epoch`).
    Relations: `annealed` lets α fall from epoch to epoch; `uniform` is α = 0.
    """

    def __init__(
        self, sampler_input: SamplerInput, *, alpha: NotNegative = 1.0, steps_per_epoch: Count | None = None
    ) -> None:
        super().__init__(sampler_input, steps_per_epoch)
        self.alpha = alpha

    def probabilities(self, epoch: int) -> np.ndarray:
        return _by_size(self.sampler_input, self.alpha)

    def state(self, epoch: int) -> dict[str, float]:
        return {"alpha": self.alpha}


@register("samplers", "annealed", paper="B")
class Annealed(Weighted):
    """p_i ∝ N_i^α with α = 1 − 0.8·(e − 1)/(E − 1): proportional in the first epoch, nearly uniform in the last.

    e: the epoch, from 1 to E; α = 1 where E is 1. (Stickland & Murray, 2019.)
    """

    def __init__(self, sampler_input: SamplerInput, *, steps_per_epoch: Count | None = None) -> None:
        super().__init__(sampler_input, steps_per_epoch)

    def alpha(self, epoch: int) -> float:
        """Of an epoch counted from 0."""
        return 1.0 if self.sampler_input.epochs == 1 else 1 - 0.8 * epoch / (self.sampler_input.epochs - 1)

    def probabilities(self, epoch: int) -> np.ndarray:
        return _by_size(self.sampler_input, self.alpha(epoch))

    def state(self, epoch: int) -> dict[str, float]:
        return {"alpha": self.alpha(epoch)}


@register("samplers", "uniform")
class Uniform(Weighted):
    """p_i = 1/T: the task of each batch is drawn with equal chances, whatever its size."""

    def __init__(self, sampler_input: SamplerInput, *, steps_per_epoch: Count | None = None) -> None:
        super().__init__(sampler_input, steps_per_epoch)

    def probabilities(self, epoch: int) -> np.ndarray:
        return _by_size(self.sampler_input, 0.0)


@register("samplers", "explicit")
class Explicit(Weighted):
    """p_i as given: the task of each batch is drawn with `probabilities: {task: p}`; they need not add up to 1."""

    def __init__(
        self,
        sampler_input: SamplerInput,
        *,
        probabilities: dict[TaskName, NotNegative] | None = None,
        steps_per_epoch: Count | None = None,
    ) -> None:
        super().__init__(sampler_input, steps_per_epoch)
        given = probabilities or dict.fromkeys(sampler_input.sizes, 1.0)
        if given.keys() != sampler_input.sizes.keys():
            raise ValueError(f"'probabilities' has one number for each task: {', '.join(sampler_input.sizes)}")
        if sum(given.values()) <= 0:
            raise ValueError("one of the 'probabilities' must be above 0")
        chances = np.array([given[task] for task in sampler_input.sizes])
        self.chances = chances / chances.sum()

    def probabilities(self, epoch: int) -> np.ndarray:
        return self.chances
