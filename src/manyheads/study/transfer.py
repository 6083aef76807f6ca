"""Does sharing help? Every task alone, with each other task, and with all of them, and what changed.

The runs are those of one row of the study with tasks left out. At equal `examples` a task gets the very batches that it
gets there, at the same rates (`training.only`); at equal `steps` the same number of optimizer steps, all of
them its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from manyheads.errors import UserError
from manyheads.recipe import Recipe
from manyheads.sampling import Supply
from manyheads.schedule import plan_schedule
from manyheads.study.comparison import Cell, Found, Measured, compare, high_is_best, mark, tasks_of
from manyheads.study.settings import Overrides, Study
from manyheads.study.variants import ALL, Row, variant_recipe
from manyheads.task_data import load_tasks


@dataclass(frozen=True)
class TransferMatrix:
    """What each task gained or lost from company: task → company ('alone', a task, 'all') → cell."""

    equal: str
    tasks: list[str]
    alone: dict[str, Cell]
    cells: dict[str, dict[str, Cell]]
    looks: int


def baseline_rows(study: Study, base: Recipe, shared: Row, more: Overrides) -> list[Row]:
    """A row for every task alone, and one for every pair where there are more than two tasks."""
    if study.baselines is None:
        return []
    if list(shared.members) != [ALL]:
        place = study._origin.place(("baselines",))
        raise UserError(
            f"{place}: row '{shared.name}' is not one run that tasks could be left out of; choose with `to`."
        )
    tasks = list(base.tasks)
    sets = [(one,) for one in tasks] + (list(combinations(tasks, 2)) if len(tasks) > 2 else [])
    own = shared.members[ALL]
    if study.equal == "examples":
        changes: list[Overrides] = [{"training.only": list(some)} for some in sets]
    else:
        steps = _steps(variant_recipe(study, own, more, shared.name))
        changes = [
            {"tasks": list(some), "sampler": "batch-round-robin", "phases": [{"steps": steps}], "evaluate.weights": {}}
            for some in sets
        ]
    return [Row(company(some), {ALL: {**own, **change}}) for some, change in zip(sets, changes, strict=True)]


def company(tasks: tuple[str, ...]) -> str:
    return f"{tasks[0]} alone" if len(tasks) == 1 else f"{' + '.join(tasks)} only"


def transfer_matrix(study: Study, base: Recipe, shared: Row, found: Found) -> TransferMatrix | None:
    """As far as runs are finished; None where no task is finished alone."""
    tasks = list(base.tasks)
    kinds = tasks_of(found)
    measured = {name: Measured(runs, base, kinds) for name, runs in found.items() if runs}
    alone: dict[str, Cell] = {}
    cells: dict[str, dict[str, Cell]] = {}
    looked: list[tuple[Cell, bool]] = []
    for task in tasks:
        lonely = measured.get(company((task,)))
        if lonely is None:
            continue
        alone[task] = Cell(lonely.values(task))
        rows = {
            **{other: company(tuple(sorted((task, other), key=tasks.index))) for other in tasks if other != task},
            "all": shared.name,
        }
        cells[task] = {}
        for other, row in rows.items():
            if row in measured and (len(tasks) > 2 or other == "all"):
                cell = Cell(measured[row].values(task), difference=compare(task, measured[row], lonely))
                cells[task][other] = cell
                if cell.difference is not None:
                    looked.append((cell, high_is_best(task, kinds)))
    mark(looked)
    return TransferMatrix(study.equal, tasks, alone, cells, len(looked)) if alone else None


def _steps(recipe: Recipe) -> int:
    """How many optimizer steps the recipe takes."""
    loaded = load_tasks(recipe)
    sizes = {name: len(data.train) for name, data in loaded.items()}
    batches = {name: task.batch_size or recipe.training.batch_size for name, task in recipe.tasks.items()}
    return plan_schedule(
        recipe, Supply(sizes, batches, recipe.seed, rows={name: one.rows for name, one in loaded.items()})
    ).steps
