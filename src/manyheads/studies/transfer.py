"""Does sharing help? Every task alone, with each other task, and with all of them, and what changed.

The runs are those of one row of the study with tasks left out. At equal `examples` a task gets the very batches that it
gets there, at the same rates (`training.active_tasks`); at equal `steps` the same number of optimizer steps, all of
them its own, one batch of each task in each (batch round robin, whatever the row's sampler is).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError
from manyheads.parts.samplers import SamplerInput
from manyheads.studies.comparison import (
    Cell,
    Found,
    Measured,
    compare,
    high_is_best,
    mark,
    most_apart,
    tasks_of,
    unfinished,
)
from manyheads.studies.config import Overrides, Study, stacked
from manyheads.studies.variants import ALL, Row, variant_recipe
from manyheads.tasks.load import load_tasks
from manyheads.training.schedule import plan_schedule

ALONE = "alone"


@dataclass(frozen=True)
class TransferMatrix:
    """What each task gained or lost from company: task → company (a task, or 'all') → cell."""

    equal: str  # examples or steps
    tasks: list[str]
    alone: dict[str, Cell]
    cells: dict[str, dict[str, Cell]]
    looks: int
    rows: dict[str, dict[str, str]]  # task → company, or 'alone' → the row that has it
    missing: dict[str, int]  # row → how many of its seeds are not finished
    most: dict[str, float]  # how far apart two values of a task can be


def baseline_rows(study: Study, base: Recipe, shared: Row, more: Overrides) -> list[Row]:
    """A row for every task alone, and one for every pair where there are more than two tasks."""
    if study.baselines is None:
        return []
    if list(shared.members) != [ALL]:
        location = study._origin.location(("baselines",))
        raise UserError(
            f"{location}: row '{shared.name}' is not one run that tasks could be left out of; choose with `to`."
        )
    tasks = list(base.tasks)
    sets = [(one,) for one in tasks] + (list(combinations(tasks, 2)) if len(tasks) > 2 else [])
    own = shared.members[ALL]
    steps = 0
    if "steps" in study.equal:
        whole = variant_recipe(study, own, more, shared.variant)
        if whole.phases:
            location = study._origin.location(("equal",))
            raise UserError(
                f"{location}: row '{shared.name}' has phases, which equal steps would leave out; take 'examples'."
            )
        steps = _steps(whole)
    return [
        Row(company(some, equal), shared.variant, {ALL: stacked(own, _left_with(some, equal, steps))})
        for equal in study.equal
        for some in sets
    ]


def company(tasks: tuple[str, ...], equal: str) -> str:
    """The name of the row of these tasks without the others."""
    name = f"{tasks[0]} alone" if len(tasks) == 1 else f"{' + '.join(tasks)} only"
    return f"{name}, equal steps" if equal == "steps" else name


def _left_with(tasks: tuple[str, ...], equal: str, steps: int) -> Overrides:
    if equal == "examples":
        return {"training.active_tasks": list(tasks)}
    own = {"tasks": list(tasks), "sampler": "batch-round-robin", "evaluate.weights": {}}
    return {**own, "phases": [{"steps": steps}]}


def transfer_matrix(study: Study, base: Recipe, shared: Row, found: Found, equal: str) -> TransferMatrix:
    """As far as runs are finished."""
    tasks = list(base.tasks)
    kinds = tasks_of(found)
    planned = len(study.seed_list)
    measured = {name: Measured(runs, base, kinds, planned) for name, runs in found.items() if runs}
    rows = {task: _companies(task, tasks, shared.name, equal) for task in tasks}
    alone: dict[str, Cell] = {}
    cells: dict[str, dict[str, Cell]] = {}
    looked: list[tuple[Cell, bool]] = []
    for task in tasks:
        lonely = measured.get(rows[task][ALONE])
        if lonely is None:
            continue
        alone[task] = Cell(lonely.values(task))
        cells[task] = {}
        for other, row in rows[task].items():
            if other != ALONE and row in measured:
                cell = Cell(measured[row].values(task), difference=compare(task, measured[row], lonely))
                cells[task][other] = cell
                if cell.difference is not None:
                    looked.append((cell, high_is_best(task, kinds)))
    mark(looked)
    names = dict.fromkeys(name for some in rows.values() for name in some.values() if name != shared.name)
    missing = unfinished(study, list(names), found)
    most = {task: most_apart(task, kinds) for task in tasks}
    return TransferMatrix(equal, tasks, alone, cells, len(looked), rows, missing, most)


def _companies(task: str, tasks: list[str], shared: str, equal: str) -> dict[str, str]:
    """With whom a task is trained → the row in which it is."""
    others = [other for other in tasks if other != task] if len(tasks) > 2 else []
    pairs = {other: company(tuple(sorted((task, other), key=tasks.index)), equal) for other in others}
    return {ALONE: company((task,), equal), **pairs, "all": shared}


def _steps(recipe: Recipe) -> int:
    """How many optimizer steps the recipe takes."""
    loaded = load_tasks(recipe)
    sizes = {name: len(data.train) for name, data in loaded.items()}
    batches = {name: task.batch_size or recipe.training.batch_size for name, task in recipe.tasks.items()}
    return plan_schedule(
        recipe, SamplerInput(sizes, batches, recipe.seed, rows={name: one.rows for name, one in loaded.items()})
    ).steps
