"""What is wrong with a recipe's data, before hours of training are spent on it. Reads everything, trains nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from manyheads.checks.findings import SEVERITIES, Finding, Severity
from manyheads.checks.labels import check_balance
from manyheads.checks.lengths import LengthLimit, NoEncoder, find_truncation, read_limit
from manyheads.checks.matches import check_matches
from manyheads.checks.repeated import find_common_sentences, find_conflicts, find_duplicates, find_overlap
from manyheads.checks.rows import check_files, find_bad_rows, find_odd_texts
from manyheads.checks.split import Split
from manyheads.config.recipe import Recipe
from manyheads.config.task import Source
from manyheads.console import Reporter
from manyheads.data.dataset import read_rows
from manyheads.data.labels import LabelReader
from manyheads.data.table import Columns, Table
from manyheads.errors import UserError
from manyheads.tasks.columns import choose_columns
from manyheads.tasks.kind import find_kind
from manyheads.tasks.load import check_files as check_files_exist
from manyheads.tasks.load import present_sources
from manyheads.tasks.resolve import choose_reader
from manyheads.tasks.same_rows import same_rows
from manyheads.tasks.teacher_faults import teachers_to_come

Splits = dict[str, Split]


def check_data(recipe: Recipe, reporter: Reporter | None = None) -> list[Finding]:
    """Everything found in the data of a recipe's tasks, the gravest of each task first."""
    reporter = reporter or Reporter(quiet=True)
    check_files_exist(recipe)
    limit = read_limit(recipe.encoder)
    findings: list[Finding] = []
    tasks: dict[str, Splits] = {}
    for name in recipe.tasks:
        reporter.say(f"checking {name} …")
        check = TaskCheck(recipe, name, limit)
        findings += check.findings()
        tasks[name] = check.splits
    findings += _compare_tasks(tasks, same_rows(recipe))
    said = {finding.message for finding in findings}
    findings += _would_train(recipe, isinstance(limit, LengthLimit), said)
    order = [*tasks, ""]
    return sorted(findings, key=lambda finding: (order.index(finding.task), SEVERITIES.index(finding.severity)))


def _compare_tasks(tasks: dict[str, Splits], row_groups: dict[str, str]) -> Iterator[Finding]:
    """Sentences of one task's dev that another task trains on, on other rows than it does itself."""
    for name, splits in tasks.items():
        for trained_name, trained_splits in tasks.items():
            same_train = name in row_groups and row_groups[name] == row_groups.get(trained_name)
            if trained_name != name and not same_train and "dev" in splits and "train" in trained_splits:
                yield from find_common_sentences(splits["dev"], trained_splits["train"])


def _would_train(recipe: Recipe, can_load: bool, said: set[str]) -> Iterator[Finding]:
    """Whether training would start but for bad rows: parts that do not fit each other, the labels or the encoder.

    What stops it may have been said already, of a file that cannot be read.
    """
    from manyheads.tasks.load import load_tasks
    from manyheads.training.setup import assemble

    skipping = recipe.model_copy(deep=True)
    skipping._locations = recipe._locations
    for settings in skipping.tasks.values():
        settings.bad_rows = "skip"
    try:
        if can_load:
            assemble(skipping, Reporter(quiet=True), to_distill=True)
        else:
            load_tasks(skipping)
    except UserError as fault:
        if str(fault) in said:
            return
        yield Finding("", "", "recipe", "error", 1, 1, f"Training would not start: {fault}")
    for task, sentence in teachers_to_come(recipe).items():
        yield Finding(task, "", "recipe", "note", 1, 1, f"{sentence[0].upper()}{sentence[1:]}.")


class TaskCheck:
    """The check of one task; `splits` holds what could be read."""

    def __init__(self, recipe: Recipe, task: str, limit: LengthLimit | NoEncoder) -> None:
        self.recipe, self.task, self.limit = recipe, task, limit
        self.settings = recipe.tasks[task]
        self.root = Path(recipe.data.root or ".")
        self.splits: Splits = {}
        self.own_train: Split | None = None  # without extra rows, of which training itself leaves out repeats
        self.columns: Columns | None = None
        self.reader: LabelReader | None = None

    def findings(self) -> Iterator[Finding]:
        notes: list[str] = []
        sources: dict[str, list[Source]] = {}
        for split_name in ("train", "dev", "test"):
            sources[split_name] = present_sources(self.recipe, self.task, split_name, notes)
        if not sources["train"]:
            location = self.recipe.location("tasks", self.task, "train")
            raise UserError(f"{location}: none of its optional files is there.", code="missing-file")
        for split_name, split_sources in sources.items():
            if not split_sources:
                continue
            try:
                table = self._read(split_name, split_sources)
            except UserError as fault:  # a column that is not there, or a file that is not what it claims to be
                yield Finding(self.task, split_name, "unreadable", "error", 1, 1, str(fault))
                if self.columns is None:
                    return
                continue
            if split_name == "train":
                yield from self._choose_reader(table)
            split = self._as_split(split_name, table)
            self.splits[split_name] = split
            if split_name == "train":
                self.own_train = self._without_extra(split, split_sources)
            yield from self._check_split(split, split_sources)

    def _read(self, split_name: str, sources: list[Source]) -> Table:
        if self.columns is None:
            self.columns = choose_columns(self.settings, sources[0], self.root)
        columns = self.columns
        if split_name == "test":
            columns = replace(columns, label=None)
        location = self.recipe.location("tasks", self.task, split_name)
        return read_rows(sources, self.root, split_name, columns, location)

    def _as_split(self, split_name: str, table: Table) -> Split:
        columns = [column.to_pylist() for column in table.texts]
        return Split(self.task, split_name, table, list(zip(*columns, strict=True)))

    def _without_extra(self, train: Split, sources: list[Source]) -> Split | None:
        """Train's rows of sources that are not extra; None where all are."""
        own_sources = [source for source in sources if not source.left_out_splits]
        if len(own_sources) == len(sources):
            return train
        return self._as_split("train", self._read("train", own_sources)) if own_sources else None

    def _choose_reader(self, train: Table) -> Iterator[Finding]:
        assert self.columns is not None
        try:
            self.reader = choose_reader(self.settings, self.columns, train.distinct_labels())
        except ValueError as fault:
            message = f"The labels cannot be understood: {fault}."
            yield Finding(self.task, "train", "labels", "error", 1, 1, message)

    def _check_split(self, split: Split, sources: list[Source]) -> Iterator[Finding]:
        assert self.columns is not None
        bad_row: Severity = "error"
        if (self.settings.bad_rows or self.recipe.data.bad_rows) == "skip":
            bad_row = "warning"
        no_label = bad_row
        if self.task in same_rows(self.recipe):  # another task may have the label
            no_label = "note"
        yield from find_bad_rows(split, self.reader, bad_row, no_label)
        yield from check_files(split, sources, self.root, self.columns)
        yield from find_odd_texts(split)
        yield from self._find_repeats(split)
        if not split.usable_rows:
            return
        if split.labels and self.reader is not None:
            yield from check_balance(split, self.reader, self.splits["train"])
            if find_kind(self.reader.kind).searches:
                yield from check_matches(split)
        encoding = self.recipe.tasks[self.settings.head_of or self.task].encoding
        if self.reader is None or not find_kind(self.reader.kind).in_windows:  # whose long texts are read in windows
            yield from find_truncation(split, encoding, self.limit, self.columns.choices is not None)

    def _find_repeats(self, split: Split) -> Iterator[Finding]:
        """Within a split, and between train and the others; extra rows aside."""
        own_split = self.own_train if split.name == "train" else split
        if own_split is None:
            return
        yield from find_duplicates(own_split)
        yield from find_conflicts(own_split)
        if split.name != "train" and self.own_train is not None:
            yield from find_overlap(self.own_train, split)
