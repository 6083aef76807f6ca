"""The only place that fills `.grad`.

All batches of a round go through the encoder as one packed pass, or as several where they hold more tokens than fit:
losses are sums over examples divided by the step's count, so passes add up to the same gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

from manyheads.model import Inputs, ManyHeads, TaskTokens
from manyheads.sampling import Batch

Pass = list[tuple[str, list[int], Inputs]]  # (task, rows, their encoder inputs)


class NonFiniteLoss(Exception):
    """A loss that is not a number: where it came from."""

    def __init__(self, task: str, rows: list[int], value: float) -> None:
        super().__init__(f"loss of task '{task}' is {value}")
        self.task, self.rows, self.value = task, rows, value


def backward(
    model: ManyHeads,
    data: dict[str, TaskTokens],
    rounds: list[list[Batch]],
    scalarize: Callable[[torch.Tensor], torch.Tensor],
    tokens_per_pass: int,
    autocast: Callable[[], AbstractContextManager[None]],
) -> dict[str, float]:
    """Add the gradient of one step to `.grad`; returns each task's mean loss over the step's examples."""
    counts: dict[str, int] = {}
    for batch in (batch for one in rounds for batch in one):
        counts[batch.task] = counts.get(batch.task, 0) + len(batch.rows)
    losses = dict.fromkeys(counts, 0.0)
    for one in rounds:
        for passing in split_passes(model, data, one, tokens_per_pass):
            with autocast():
                outputs = model([(task, inputs) for task, _, inputs in passing])
            means = []
            for (task, rows, _), output in zip(passing, outputs, strict=True):
                labels = data[task].labels
                assert labels is not None
                output = output.to(torch.promote_types(output.dtype, torch.float32))  # losses never in half precision
                mean = model.head(task).loss(output, labels[rows].to(output.device)).sum() / counts[task]
                value = mean.item()
                if not torch.isfinite(mean):
                    raise NonFiniteLoss(task, rows, value)
                losses[task] += value
                means.append(mean)
            scalarize(torch.stack(means)).backward()
    return losses


def split_passes(
    model: ManyHeads, data: dict[str, TaskTokens], batches: list[Batch], tokens_per_pass: int
) -> list[Pass]:
    """A round's examples in their order, cut where the next would exceed the budget of tokens.

    The batch of a loss that compares its examples is not cut.
    """
    passes: list[Pass] = [[]]
    used = 0
    for batch in batches:
        examples = [(row, data[batch.task].inputs(model, row)) for row in batch.rows.tolist()]
        pieces = [examples] if model.head(batch.task).loss.whole_batch else [[one] for one in examples]
        for piece in pieces:
            size = sum(len(one.ids) for _, inputs in piece for one in inputs)
            if used and used + size > tokens_per_pass:
                passes.append([])
                used = 0
            if not passes[-1] or passes[-1][-1][0] != batch.task:
                passes[-1].append((batch.task, [], []))
            passes[-1][-1][1].extend(row for row, _ in piece)
            passes[-1][-1][2].extend(inputs for _, inputs in piece)
            used += size
    return [one for one in passes if one]
