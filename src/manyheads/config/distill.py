"""The recipe's section about distillation: what a student learns from its teachers, and which teachers are made."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from manyheads.config.training import Model
from manyheads.registry import TaskName


def _one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


TeacherFolders = Annotated[list[str], Field(min_length=1), BeforeValidator(_one_or_more)]
Teachers = dict[TaskName, TeacherFolders]
Gold = Literal["annealed"] | Annotated[float, Field(ge=0, le=1)]


class DistillSettings(Model):
    """What a task with `teachers` learns, and which teachers `manyheads distill` makes."""

    gold: Gold = "annealed"
    """λ in λ·(loss of the label) + (1 − λ)·(loss of the teachers' prediction): 'annealed' rises from 0 at the first
    step to 1 at the last; or a number, the same at every step."""
    temperature: float = Field(1.0, gt=0, allow_inf_nan=False)
    """T of classes: the student's outputs are divided by T and the teachers' probabilities softened alike, and that
    loss is multiplied with T²."""
    seeds: int = Field(3, ge=1)
    """Teachers that `manyheads distill` trains for each task without any; their predictions are averaged."""
    folds: int | None = Field(None, ge=2)
    """`manyheads distill` trains each seed's teacher so many times, each time without one fold of train, which it alone
    predicts: no teacher is asked about rows that it was trained on. null trains each once, on all of train."""
    passes: float | None = Field(None, gt=0)
    """Passes of each teacher over its task; null is the recipe's own length, which is then one in passes or epochs."""
    tasks: list[TaskName] | None = Field(None, min_length=1)
    """Tasks for which `manyheads distill` makes teachers; by default all."""


# of the section, what only `manyheads distill` reads: the teachers themselves decide the student's numbers
ONLY_FOR_THE_COMMAND = ("seeds", "folds", "passes", "tasks")
