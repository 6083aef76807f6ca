"""A study, opened: its rows and runs, what is finished, its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError, nearest
from manyheads.studies.columns import OVERALL
from manyheads.studies.comparison import FinishedResults, StudyTable, make_table
from manyheads.studies.config import SEED_IS_SET, Overrides, Study
from manyheads.studies.folder import RunStatus, StudyFolder, run_status
from manyheads.studies.load import load_study
from manyheads.studies.ranked_layers import describe_layers, ranked_layers
from manyheads.studies.store import Result
from manyheads.studies.teachers import about_teachers, check_students, check_taught_by, identify_runs
from manyheads.studies.transfer import TransferMatrix, baseline_rows, transfer_matrix
from manyheads.studies.validation import (
    check_budgets,
    check_columns,
    check_metrics,
    check_not_worse,
    check_overrides,
    check_published,
    check_readings,
    check_row_names,
)
from manyheads.studies.variants import PlannedRun, Row, base_recipe, make_rows, plan_runs
from manyheads.tasks.load import check_files


@dataclass
class OpenStudy:
    """A study at one scale, in the folder that keeps its runs."""

    study: Study
    folder: StudyFolder
    overrides: Overrides  # what the command line changes in every run

    @cached_property
    def base(self) -> Recipe:
        return base_recipe(self.study, self.overrides)

    @cached_property
    def variant_rows(self) -> list[Row]:
        return make_rows(self.study, self.base)

    @cached_property
    def reference(self) -> Row:
        """The row that others are compared with, and that baselines leave tasks out of."""
        names = [row.name for row in self.variant_rows]
        name = self.study.to or names[0]
        if name not in names:
            raise UserError(f"{self.study.location('to')}: no row '{name}'.{nearest(name, names)}", code="unknown-row")
        return self.variant_rows[names.index(name)]

    @cached_property
    def baselines(self) -> list[Row]:
        return baseline_rows(self.study, self.base, self.reference, self.overrides)

    @property
    def all_rows(self) -> list[Row]:
        """Baselines last."""
        return [*self.variant_rows, *self.baselines]

    @property
    def row_names(self) -> list[str]:
        return [row.name for row in self.all_rows]

    @cached_property
    def runs(self) -> list[tuple[str, PlannedRun]]:
        """Every run with its identity; baselines last."""
        planned_runs = plan_runs(self.study, self.all_rows, self.overrides, check_files)
        return identify_runs(planned_runs, self.all_rows)

    def runs_of(self, row_names: Sequence[str]) -> list[tuple[str, PlannedRun]]:
        """The runs of these rows and of their teachers; of all where none is named."""
        names = self.row_names
        for name in row_names:
            if name not in names:
                raise UserError(
                    f"{self.study._origin.file}: no row '{name}'.{nearest(name, names)}", code="unknown-row"
                )
        if not row_names:
            return self.runs
        teaching_rows = [row.taught_by for row in self.all_rows if row.name in row_names]
        return [(identity, run) for identity, run in self.runs if run.row in row_names or run.row in teaching_rows]

    def run_statuses(self) -> list[RunStatus]:
        return [run_status(self.folder, identity, planned) for identity, planned in self.runs]

    def finished_results(self) -> FinishedResults:
        """Rows → seeds → results, of the seeds of which every run is finished."""
        results = self.folder.results
        identities: dict[tuple[str, int], dict[str, str]] = {}
        for identity, planned in self.runs:
            identities.setdefault((planned.row, planned.seed), {})[planned.member] = identity
        finished: FinishedResults = {}
        for (row_name, seed), members in identities.items():
            if all(map(results.has, members.values())):
                by_member: dict[str, Result] = {}
                for member, identity in members.items():
                    by_member[member] = results.read(identity)
                finished.setdefault(row_name, {})[seed] = by_member
        return finished

    def tables(self) -> tuple[StudyTable, list[TransferMatrix]]:
        """The study's table, and a transfer matrix for everything that its baselines have in common with it."""
        finished = self.finished_results()
        if not finished:
            message = f"{self.study.name}: no run is finished yet. Start them: manyheads study run …"
            unrelated = self.folder.results.count()
            if unrelated:
                message += f" The {unrelated} results here are of other recipes, data or versions."
            raise UserError(message, code="no-finished-run")
        matrices: list[TransferMatrix] = []
        if self.study.baselines is not None:
            for equal in self.study.equal:
                matrices.append(transfer_matrix(self.study, self.base, self.reference, finished, equal))
        table = make_table(self.study, self.base, self.variant_rows, finished)
        table.notes = [*table.notes, *about_teachers(self.variant_rows)]
        return table, matrices

    def check(self) -> None:
        """Rows, columns and published figures by name: nothing is trained for a table that cannot be made."""
        check_overrides(self.study, self.overrides)
        check_row_names(self.study, self.all_rows)
        check_taught_by(self.study, self.all_rows)
        check_students(self.study, self.runs)
        tasks: list[str] = []
        for _, planned in self.runs:
            tasks += [name for name in planned.recipe.tasks if name not in tasks]
        columns = self.study.metrics or [*tasks, OVERALL]
        check_columns(self.study, columns, tasks)
        recipes = [planned.recipe for _, planned in self.runs]
        check_budgets(self.study, recipes)
        check_readings(self.study, columns, recipes)
        row_names = [row.name for row in self.variant_rows]
        check_published(self.study, columns, row_names)
        tasks_of_rows: dict[str, list[str]] = {name: [] for name in row_names}
        for _, planned in self.runs:
            if planned.row in tasks_of_rows:  # else it is a baseline
                tasks_of_rows[planned.row] += planned.recipe.tasks
        check_not_worse(self.study, self.base, tasks_of_rows)

    def check_metrics(self) -> None:
        """Whether tasks have the metrics that the table shows; reads their data."""
        check_metrics(self.study, self.base)


def open_study(
    source: str, scale: str | None, output: Path, overrides: Overrides, seeds: list[int] | None = None
) -> OpenStudy:
    """`seeds` stand for those of the study."""
    if "seed" in overrides:
        raise UserError(f"command line: seed: {SEED_IS_SET}", code="seed-is-set")
    folder = StudyFolder(output)
    study = load_study(source).at(scale)
    study.seeds = seeds or study.seeds
    _rank_layers(study, folder, overrides)
    opened = OpenStudy(study, folder, overrides)
    opened.check()
    return opened


def _rank_layers(study: Study, folder: StudyFolder, overrides: Overrides) -> None:
    """Replace lists of layers by those that another study ranks highest, where it is finished; note which it is."""
    for key, request in study._ranked.items():
        if key in overrides:
            continue
        layers: list[int] | None = None
        if folder.results.count():
            ranking = load_study(_beside(study, request.layers_from)).at(study._scale or None)
            layers = ranked_layers(request, OpenStudy(ranking, folder, overrides).runs, folder.results)
        if layers is not None:
            study.set = {**study.set, key: layers}
        note = describe_layers(request, layers)
        if note not in study.notes:
            study.notes = [*study.notes, note]


def _beside(study: Study, source: str) -> str:
    """A study's file stands beside the one that names it, unless it is a shipped one."""
    file = study._folder / source
    if file.is_file():
        return str(file)
    return source
