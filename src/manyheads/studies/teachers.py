"""Rows whose runs learn from those of another row (`taught_by`), which has a run for every task.

A student's task has all seeds of that row's run as its teachers; their predictions are averaged. Students of different
seeds share their teachers, so the variance over seeds does not include the choice of teachers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from manyheads.errors import UserError, nearest
from manyheads.studies.config import Study
from manyheads.studies.identity import run_identity
from manyheads.studies.variants import ALL, PlannedRun, Row

IdentifiedRun = tuple[str, PlannedRun]


def check_taught_by(study: Study, rows: Sequence[Row]) -> None:
    """Teachers are the runs of a row of the study that has a run for every task, and no teachers itself."""
    by_name = {row.name: row for row in rows}
    for row in rows:
        if row.taught_by is None:
            continue
        location = study.location("variants", row.variant, "taught_by")
        teachers = by_name.get(row.taught_by)
        if teachers is None:
            raise UserError(
                f"{location}: no row '{row.taught_by}'.{nearest(row.taught_by, by_name)}", code="unknown-row"
            )
        if ALL in teachers.members:
            raise UserError(
                f"{location}: '{teachers.name}' has one run of all tasks; teachers are the runs of a row with a run "
                "for every task (`each: task`).",
                code="no-run-per-task",
            )
        if teachers.taught_by is not None:
            raise UserError(f"{location}: '{teachers.name}' has teachers itself.", code="taught-teachers")


def check_students(study: Study, runs: Iterable[IdentifiedRun]) -> None:
    """`manyheads distill` makes teachers for some tasks, or folds. Here they are the runs of a row, for every task."""
    for _, planned in runs:
        for key in ("folds", "tasks"):
            if planned.teachers and getattr(planned.recipe.distill, key) is not None:
                raise UserError(
                    f"{study.location('variants')}: '{planned.row}': distill.{key} is for `manyheads distill`, and "
                    "would change nothing here: with taught_by the runs of a row teach all their tasks. Leave it out.",
                    code="not-in-study",
                )


def identify_runs(planned_runs: Sequence[PlannedRun], rows: Sequence[Row]) -> list[IdentifiedRun]:
    """Every run with its identity, in the same order; a student's with those of its teachers."""
    taught_by = {row.name: row.taught_by for row in rows}
    untaught: dict[str, list[IdentifiedRun]] = {}
    for planned in planned_runs:
        if taught_by[planned.row] is None:
            untaught.setdefault(planned.row, []).append((run_identity(planned.recipe), planned))
    remaining = {row: iter(runs) for row, runs in untaught.items()}
    identified: list[IdentifiedRun] = []
    for planned in planned_runs:
        teaching_row = taught_by[planned.row]
        if teaching_row is None:
            identified.append(next(remaining[planned.row]))
            continue
        teachers: dict[str, list[str]] = {}
        for identity, teacher in untaught[teaching_row]:
            if teacher.member in planned.recipe.tasks:
                teachers.setdefault(teacher.member, []).append(identity)
        identified.append((run_identity(planned.recipe, teachers), replace(planned, teachers=teachers)))
    return identified


def teachers_first(runs: Sequence[IdentifiedRun]) -> list[IdentifiedRun]:
    """Runs without teachers before those that may need them."""
    return sorted(runs, key=lambda identified: bool(identified[1].teachers))


def about_teachers(rows: Sequence[Row]) -> list[str]:
    """What a reader of the table should know of each row with teachers."""
    notes: list[str] = []
    for row in rows:
        if row.taught_by is not None:
            notes.append(
                f"'{row.name}' learns from all seeds of '{row.taught_by}', averaged: its seeds share their teachers, "
                "and what those cost is not in its examples and time."
            )
    return notes
