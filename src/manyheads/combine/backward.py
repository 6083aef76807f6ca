"""The only place that fills `.grad`.

All batches of a round go through the encoder as one packed pass, or as several where they hold more tokens than fit:
losses are sums over examples divided by the step's count, so passes add up to the same gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

from manyheads.errors import UserError
from manyheads.model import Inputs, ManyHeads, TaskTokens
from manyheads.processes import Processes
from manyheads.sampling import Batch
from manyheads.tokens import Sequence, merge_equal

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
    processes: Processes | None = None,
    alarm: bool = False,
) -> tuple[dict[str, float], bool]:
    """Add the gradient of one step to `.grad`; returns each task's mean loss over the step's examples.

    With several processes each works on its slice of the rounds, and sums go over all of them. `alarm` is passed on:
    whether any process raised it is returned beside the losses.
    """
    counts: dict[str, int] = {}
    for batch in (batch for one in rounds for batch in one):
        counts[batch.task] = counts.get(batch.task, 0) + len(batch.rows)
    losses = dict.fromkeys(counts, 0.0)
    alone = processes or Processes()
    fault: NonFiniteLoss | None = None
    try:
        _add_gradient(model, data, alone.share(rounds), counts, losses, scalarize, tokens_per_pass, autocast)
    except NonFiniteLoss as found:  # told to the other processes first, which would wait for this one
        fault = found
    trained = [one for one in model.parameters() if one.requires_grad]
    broken, alarmed = alone.add_up(trained, losses, [fault is not None, alarm])
    if broken:
        raise fault or NonFiniteLoss(", ".join(counts), [], float("nan"))
    return losses, alarmed


def _add_gradient(
    model: ManyHeads,
    data: dict[str, TaskTokens],
    rounds: list[list[Batch]],
    counts: dict[str, int],
    losses: dict[str, float],
    scalarize: Callable[[torch.Tensor], torch.Tensor],
    tokens_per_pass: int,
    autocast: Callable[[], AbstractContextManager[None]],
) -> None:
    """This process's part: losses are divided by the counts of all, so that parts add up."""
    for one in rounds:
        for passing in split_passes(model, data, one, tokens_per_pass):
            with autocast():
                outputs = model([(task, inputs) for task, _, inputs in passing])
            means = []
            for (task, rows, _), output in zip(passing, outputs, strict=True):
                labels = data[task].labels
                assert labels is not None
                output = output.to(torch.promote_types(output.dtype, torch.float32))  # losses never in half precision
                values = model.head(task).loss(output, labels[rows].to(output.device))
                if values.shape != (len(rows),):
                    name = model.tasks[task].loss.name
                    raise UserError(
                        f"loss '{name}' of task '{task}' gave a tensor of shape {list(values.shape)} for {len(rows)} "
                        f"examples; a loss gives one value per example: [{len(rows)}]."
                    )
                mean = values.sum() / counts[task]
                value = mean.item()
                if not torch.isfinite(mean):
                    raise NonFiniteLoss(task, rows, value)
                losses[task] += value
                means.append(mean)
            scalarize(torch.stack(means)).backward()


def split_passes(
    model: ManyHeads, data: dict[str, TaskTokens], batches: list[Batch], tokens_per_pass: int
) -> list[Pass]:
    """A round's examples in their order, cut where the next would exceed the budget of tokens.

    Examples of one row that several tasks drew stay together, so that the row is encoded once; so does the batch of a
    loss that compares its examples.
    """
    together: dict[tuple[object, ...], list[tuple[str, int, list[Sequence]]]] = {}
    for batch in batches:
        split = data[batch.task]
        whole = model.head(batch.task).loss.whole_batch
        for row in batch.rows.tolist():
            key = ("batch", batch.task) if whole else ("row", split.rows or batch.task, row)
            together.setdefault(key, []).append((batch.task, row, split.inputs(model, row)))
    passes: list[dict[str, tuple[list[int], Inputs]]] = [{}]
    used = 0
    for examples in together.values():
        distinct, _ = merge_equal([one for _, _, inputs in examples for one in inputs], everywhere=False)
        size = sum(len(one.ids) for one in distinct)
        if used and used + size > tokens_per_pass:
            passes.append({})
            used = 0
        for task, row, inputs in examples:
            rows, found = passes[-1].setdefault(task, ([], []))
            rows.append(row)
            found.append(inputs)
        used += size
    return [[(task, *one) for task, one in found.items()] for found in passes if found]
