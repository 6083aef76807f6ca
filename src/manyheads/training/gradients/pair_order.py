"""The order in which the texts of a pair are read, where a task says that its pairs have none."""

from __future__ import annotations

from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.seeding import seed_for
from manyheads.tokens.packing import Sequence


def is_swapped(seeds: tuple[int, int], rows: str, row: int) -> bool:
    """A fair coin for every visit of a pair: the lowest bit of hash(seed, step, "pair order", rows, row).

    It depends on nothing else, so a resumed run and every process throw it alike. `rows` is the name of the task, or
    that of its rows where several tasks read them: those among them that are symmetric read a pair in one order, and
    encode it once. A row that comes twice in a step has one order in it.
    """
    return seed_for(*seeds, "pair order", rows, row) % 2 == 1


def drawn_inputs(model: ManyHeads, tokens: TaskTokens, row: int, seeds: tuple[int, int]) -> list[Sequence]:
    """The encoder inputs of one example, of a symmetric pair in the order of this step.

    States that were kept of frozen layers are those of the file's order: heads start on them before the first step, and
    no symmetric task has any after it.
    """
    task = tokens.task
    if task.symmetric and tokens.frozen is None and is_swapped(seeds, tokens.row_group or task.name, row):
        return tokens.inputs(model, row, swapped=True)
    return tokens.inputs(model, row)
