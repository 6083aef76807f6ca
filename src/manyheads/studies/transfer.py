"""Does joint training help? Every task alone, with each other task, and with all of them, and what changed.

The runs are those of one row of the study with tasks left out. At equal `examples` a task gets the very batches that it
gets there, at the same learning rates (`training.active_tasks`); at equal `steps` the same number of optimizer steps,
all of them its own, one batch of each task in each (batch round robin, whatever the row's sampler is).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError
from manyheads.parts.samplers import SamplerInput
from manyheads.studies.columns import high_is_best, largest_difference
from manyheads.studies.comparison import (
    Cell,
    FinishedResults,
    RowMetrics,
    compare,
    missing_seeds,
    set_verdicts,
    tasks_of,
)
from manyheads.studies.config import Overrides, Study, stacked
from manyheads.studies.variants import ALL, Row, variant_recipe
from manyheads.tasks.load import load_tasks
from manyheads.training.schedule import plan_schedule

ALONE = "alone"
WITH_ALL = "all"


@dataclass(frozen=True)
class TransferMatrix:
    """What each task gained or lost by joint training: task → partner (a task, or 'all') → cell."""

    equal: str  # examples or steps
    tasks: list[str]
    alone: dict[str, Cell]
    cells: dict[str, dict[str, Cell]]
    looks: int
    row_names: dict[str, dict[str, str]]  # task → partner, or 'alone' → the row of these tasks
    missing: dict[str, int]  # row → how many of its seeds are not finished
    largest_differences: dict[str, float]  # how far apart two values of a task can be


def baseline_rows(study: Study, base: Recipe, reference: Row, overrides: Overrides) -> list[Row]:
    """A row for every task alone, and one for every pair where there are more than two tasks."""
    if study.baselines is None:
        return []
    if list(reference.members) != [ALL]:
        raise UserError(
            f"{study.location('baselines')}: row '{reference.name}' is not one run that tasks could be left out of; "
            "choose with `to`.",
            code="several-runs",
        )
    task_sets: list[tuple[str, ...]] = [(task,) for task in base.tasks]
    if len(task_sets) > 2:
        task_sets += combinations(base.tasks, 2)
    settings = reference.members[ALL]
    steps = 0
    if "steps" in study.equal:
        steps = _steps_of(study, reference, overrides)
    rows: list[Row] = []
    for equal in study.equal:
        for tasks in task_sets:
            baseline = stacked(settings, _baseline_settings(tasks, equal, steps))
            rows.append(Row(_row_name(tasks, equal), reference.variant, {ALL: baseline}, reference.seeds))
    return rows


def _steps_of(study: Study, reference: Row, overrides: Overrides) -> int:
    """How many optimizer steps the reference takes."""
    recipe = variant_recipe(study, reference.members[ALL], overrides, reference.variant)
    if recipe.phases:
        raise UserError(
            f"{study.location('equal')}: row '{reference.name}' has phases, which equal steps would leave out; "
            "take 'examples'.",
            code="has-phases",
        )
    sizes: dict[str, int] = {}
    row_groups: dict[str, str | None] = {}
    for name, data in load_tasks(recipe).items():
        sizes[name] = data.pass_size
        row_groups[name] = data.row_group
    batch_sizes = {name: task.batch_size or recipe.training.batch_size for name, task in recipe.tasks.items()}
    return plan_schedule(recipe, SamplerInput(sizes, batch_sizes, recipe.seed, row_groups=row_groups)).steps


def _row_name(tasks: tuple[str, ...], equal: str) -> str:
    """The name of the row of these tasks without the others."""
    name = f"{' + '.join(tasks)} only"
    if len(tasks) == 1:
        name = f"{tasks[0]} alone"
    if equal == "steps":
        return f"{name}, equal steps"
    return name


def _baseline_settings(tasks: tuple[str, ...], equal: str, steps: int) -> Overrides:
    if equal == "examples":
        return {"training.active_tasks": list(tasks)}
    return {
        "tasks": list(tasks),
        "sampler": "batch-round-robin",
        "evaluate.weights": {},
        "phases": [{"steps": steps}],
    }


def transfer_matrix(
    study: Study, base: Recipe, reference: Row, finished: FinishedResults, equal: str
) -> TransferMatrix:
    """As far as runs are finished."""
    task_names = list(base.tasks)
    tasks = tasks_of(finished)
    row_metrics: dict[str, RowMetrics] = {}
    for name, runs in finished.items():
        if runs:
            row_metrics[name] = RowMetrics(runs, base, tasks, len(study.seed_list))
    row_names = {task: _partner_rows(task, task_names, reference.name, equal) for task in task_names}
    alone: dict[str, Cell] = {}
    cells: dict[str, dict[str, Cell]] = {}
    compared: list[tuple[Cell, bool]] = []
    for task in task_names:
        single_task = row_metrics.get(row_names[task][ALONE])
        if single_task is None:
            continue
        alone[task] = Cell(single_task.values(task))
        cells[task] = {}
        for partner, row_name in row_names[task].items():
            if partner == ALONE or row_name not in row_metrics:
                continue
            joint = row_metrics[row_name]
            cell = Cell(joint.values(task), difference=compare(task, joint, single_task))
            cells[task][partner] = cell
            if cell.difference is not None:
                compared.append((cell, high_is_best(task, tasks)))
    set_verdicts(compared)
    return TransferMatrix(
        equal=equal,
        tasks=task_names,
        alone=alone,
        cells=cells,
        looks=len(compared),
        row_names=row_names,
        missing=missing_seeds(
            dict.fromkeys(_baseline_names(row_names, reference.name), reference.seed_count(study)), finished
        ),
        largest_differences={task: largest_difference(task, tasks) for task in task_names},
    )


def _partner_rows(task: str, tasks: list[str], reference: str, equal: str) -> dict[str, str]:
    """With whom a task is trained → the row of these tasks."""
    rows = {ALONE: _row_name((task,), equal)}
    if len(tasks) > 2:
        for partner in tasks:
            if partner != task:
                pair = tuple(sorted((task, partner), key=tasks.index))
                rows[partner] = _row_name(pair, equal)
    rows[WITH_ALL] = reference
    return rows


def _baseline_names(row_names: dict[str, dict[str, str]], reference: str) -> list[str]:
    """Every baseline row once."""
    names: list[str] = []
    for by_partner in row_names.values():
        for name in by_partner.values():
            if name != reference and name not in names:
                names.append(name)
    return names
