"""A study, opened: its rows and runs, what is finished, its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError, nearest
from manyheads.parts.metrics.base import find as find_metric
from manyheads.studies.comparison import OVERALL, Found, StudyTable, make_table, metric_name
from manyheads.studies.config import SEEDS, Overrides, Study, load_study
from manyheads.studies.identity import run_identity
from manyheads.studies.runner import Place, Standing, standing
from manyheads.studies.transfer import TransferMatrix, baseline_rows, transfer_matrix
from manyheads.studies.variants import (
    Planned,
    Row,
    base_recipe,
    check_names,
    check_overrides,
    plan_runs,
    rows_of,
)
from manyheads.tasks.load import check_files, load_tasks


@dataclass
class OpenStudy:
    """A study at one scale, in the folder where its runs are kept."""

    study: Study
    location: Place
    more: Overrides  # what the command line changes in every run

    @cached_property
    def base(self) -> Recipe:
        return base_recipe(self.study, self.more)

    @cached_property
    def rows(self) -> list[Row]:
        return rows_of(self.study, self.base)

    @cached_property
    def shared(self) -> Row:
        """The row that others are compared with, and that baselines leave tasks out of."""
        wanted = self.study.to or self.rows[0].name
        found = next((row for row in self.rows if row.name == wanted), None)
        if found is None:
            location = self.study._origin.location(("to",))
            raise UserError(f"{location}: no row '{wanted}'.{nearest(wanted, [row.name for row in self.rows])}")
        return found

    @cached_property
    def baselines(self) -> list[Row]:
        return baseline_rows(self.study, self.base, self.shared, self.more)

    @cached_property
    def runs(self) -> list[tuple[str, Planned]]:
        """Every run with its identity; baselines last."""
        planned = plan_runs(self.study, [*self.rows, *self.baselines], self.more, check_files)
        return [(run_identity(one.recipe), one) for one in planned]

    def chosen(self, only: Sequence[str]) -> list[tuple[str, Planned]]:
        """The runs of some rows; of all where none is named."""
        names = [row.name for row in [*self.rows, *self.baselines]]
        unknown = next((name for name in only if name not in names), None)
        if unknown is not None:
            raise UserError(f"{self.study._origin.file}: no row '{unknown}'.{nearest(unknown, names)}")
        return [(identity, one) for identity, one in self.runs if not only or one.row in only]

    def standings(self) -> list[Standing]:
        return [standing(self.location, identity, planned) for identity, planned in self.runs]

    def found(self) -> Found:
        """Rows → seeds → results, of the seeds of which every run is finished."""
        results = self.location.results
        found: Found = {}
        for row in [*self.rows, *self.baselines]:
            for seed in self.study.seed_list:
                own = {one.member: identity for identity, one in self.runs if (one.row, one.seed) == (row.name, seed)}
                if all(results.have(identity) for identity in own.values()):
                    members = {member: results.read(identity) for member, identity in own.items()}
                    found.setdefault(row.name, {})[seed] = members
        return found

    def tables(self) -> tuple[StudyTable, list[TransferMatrix]]:
        """The study's own, and a transfer matrix for everything that its baselines have in common with it."""
        found = self.found()
        if not found:
            others = len(self.location.results.identities())
            other = f" The {others} results here are of other recipes, data or versions." if others else ""
            raise UserError(f"{self.study.name}: no run is finished yet. Start them: manyheads study run …{other}")
        wanted = self.study.equal if self.study.baselines else []
        matrices = [transfer_matrix(self.study, self.base, self.shared, found, equal) for equal in wanted]
        return make_table(self.study, self.base, self.rows, found), matrices

    def check(self) -> None:
        """Rows, columns and published figures by name: nothing is trained for a table that cannot be made."""
        study, location = self.study, self.study._origin.location
        check_overrides(study, self.more)
        check_names(study, [*self.rows, *self.baselines])
        tasks = list(dict.fromkeys(task for _, one in self.runs for task in one.recipe.tasks))
        columns = study.metrics or [*tasks, OVERALL]
        for column in columns:
            task, _, metric = column.partition(".")
            if column != OVERALL and task == OVERALL:
                raise UserError(f"{location(('metrics',))}: '{OVERALL}' has no metrics of its own, found '{column}'.")
            if column != OVERALL and task not in tasks:
                raise UserError(f"{location(('metrics',))}: no task '{task}'.{nearest(task, [*tasks, OVERALL])}")
            try:
                find_metric(metric_name(metric) if metric else "accuracy")
            except ValueError as fault:
                raise UserError(f"{location(('metrics',))}: {fault}") from None
        if study.layout == "confusion" and columns[0] == OVERALL:
            raise UserError(f"{location(('layout',))}: 'confusion' is of one task; name it first in `metrics`.")
        # a depth that the paper's encoder has, or a row of another scale, is not misspelt
        known = [row.name for row in self.rows] if study._whole and not self._by_layer else list(study.published)
        for row, printed in study.published.items():
            if row not in known:
                raise UserError(f"{location(('published', row))}: no row '{row}'.{nearest(row, known)}")
            if isinstance(printed, dict) == (study.layout == "confusion"):
                wanted = "rows of counts" if study.layout == "confusion" else "figures by column, such as {sst: .52}"
                raise UserError(
                    f"{location(('published', row))}: expected {wanted}, for the layout is '{study.layout}'."
                )
            for column in printed if isinstance(printed, dict) else ():
                if column not in columns:
                    where = location(("published", row, column))
                    raise UserError(f"{where}: no column '{column}'.{nearest(column, columns)}")

    def check_metrics(self) -> None:
        """Whether tasks are measured by what the table shows: for that their data is read, so before training only."""
        study, location = self.study, self.study._origin.location
        dotted = [column.partition(".") for column in study.metrics or [] if "." in column]
        if not dotted and study.layout == "rows":
            return
        tasks = {name: data.task for name, data in load_tasks(self.base).items()}
        for name, _, metric in dotted:
            measured = [one.name for one in tasks[name].metrics] if name in tasks else [metric_name(metric)]
            if metric_name(metric) not in measured:
                where = location(("metrics",))
                raise UserError(f"{where}: task '{name}' is not measured by '{metric}'.{nearest(metric, measured)}")
        first = (study.metrics or list(tasks))[0].partition(".")[0]
        if study.layout == "confusion" and first in tasks and tasks[first].kind not in ("classification", "ordinal"):
            raise UserError(
                f"{location(('layout',))}: task '{first}' has no classes that could be taken for one another."
            )
        classes = len(tasks[first].labels.names) if study.layout == "confusion" and first in tasks else 0
        for row, printed in study.published.items() if classes else ():
            if len(printed) != classes:
                raise UserError(
                    f"{location(('published', row))}: expected {classes} rows of {classes} counts, one for each class "
                    f"of '{first}', found {len(printed)}."
                )

    @property
    def _by_layer(self) -> bool:
        return any("layer" in variant.each for variant in self.study.variants.values())


def open_study(
    source: str, scale: str | None, output: Path, more: Overrides, seeds: list[int] | None = None
) -> OpenStudy:
    """`seeds` stand for those of the study."""
    if "seed" in more:
        raise UserError(f"command line: seed: {SEEDS}")
    study = load_study(source).at(scale)
    study.seeds = seeds or study.seeds
    opened = OpenStudy(study, Place(output), more)
    opened.check()
    return opened
