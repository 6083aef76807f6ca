"""A loss or a gradient that is not a number: where it came from, and what to do."""

from __future__ import annotations

from pathlib import Path

from manyheads.errors import UserError
from manyheads.model.task_tokens import TaskTokens

SHOWN_ROWS = 4


class NonFiniteLoss(Exception):
    """A loss that is not a number: where it came from."""

    def __init__(self, task: str, rows: list[int], value: float) -> None:
        super().__init__(f"loss of task '{task}' is {value}")
        self.task, self.rows, self.value = task, rows, value


def not_finite_error(
    step: int,
    subject: str,
    value: float,
    rows: dict[str, list[int]],
    train: dict[str, TaskTokens],
    last_checkpoint: Path | None,
    regularisers: list[str],
) -> UserError:
    """`subject` is what is not finite; `rows` are those of the step, by task."""
    batches = []
    for task, task_rows in rows.items():
        locations = ", ".join(train[task].examples.location(row) for row in task_rows[:SHOWN_ROWS])
        batches.append(f"{task} {locations}{' …' if len(task_rows) > SHOWN_ROWS else ''}")
    last = "No checkpoint was written yet."
    if last_checkpoint is not None:
        last = f"The last good checkpoint is {last_checkpoint}."
    weaker = f" or the weight of {', '.join(regularisers)}" if regularisers else ""
    return UserError(
        f"Step {step + 1:,}: {subject} is {value}. Its batch: {'; '.join(batches)}.\n"
        f"{last} Lower training.learning_rate{weaker}, or look at those rows.",
        "not-finite",
    )
