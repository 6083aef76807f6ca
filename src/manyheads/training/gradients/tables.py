"""The gradient of an embedding table is zero but in the rows of words that were read, a few of thousands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from manyheads.model.multitask import ManyHeads


@dataclass
class Rows:
    """A gradient that is zero but in some rows."""

    rows: Tensor  # [touched], rising
    values: Tensor  # [touched, width]

    @classmethod
    def of(cls, sparse: Tensor) -> Rows:
        whole = sparse.coalesce()
        return cls(whole.indices()[0], whole.values())


@contextmanager
def touched_rows_only(model: ManyHeads, parameters: Sequence[Tensor]) -> Iterator[None]:
    """Within the block, embedding tables among the parameters get gradients of the rows that were looked up."""
    chosen = {id(parameter) for parameter in parameters}
    tables = [
        module for module in model.encoder.modules() if isinstance(module, nn.Embedding) and id(module.weight) in chosen
    ]
    before = [table.sparse for table in tables]
    for table in tables:
        table.sparse = True
    try:
        yield
    finally:
        for table, sparse in zip(tables, before, strict=True):
            table.sparse = sparse


def add_up_rows(parameters: Iterable[Tensor]) -> None:
    """After a pass, so that its rows are held once, however many passes touch them."""
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()


class WholeTables:
    """Such gradients written out, as optimizers want them: the zeros are written once and kept from step to step.

    Clearing half of an encoder's gradients anew in every step, in memory that is new as well, takes a few per cent of
    a step (docs/benchmarks.md).
    """

    def __init__(self) -> None:
        self._kept: dict[Tensor, tuple[Tensor, Tensor]] = {}  # a table, and its rows that are not zero

    def write(self, parameter: Tensor, gradient: Rows) -> Tensor:
        """Until the next call the table is the caller's, who may change the rows that were given, and no others."""
        table, before = self._kept.get(parameter) or (torch.zeros_like(parameter), gradient.rows[:0])
        self._kept[parameter] = table, gradient.rows
        table.index_fill_(0, before, 0.0)
        return table.index_copy_(0, gradient.rows, gradient.values.to(table.dtype))

    def forget(self) -> None:
        """Other rows were changed: begin with new zeros."""
        self._kept.clear()
