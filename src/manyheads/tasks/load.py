"""A recipe's tasks with their data: read, checked, completed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from manyheads import registry
from manyheads.config.recipe import Recipe
from manyheads.config.task import SOURCE_KEYS, Source
from manyheads.data.dataset import Dataset, count_repairs, label_columns, label_rows, read_rows
from manyheads.data.extra_rows import ExtraRows
from manyheads.data.folds import Folds, LeftOut
from manyheads.data.hold_out import hold_out_rows
from manyheads.data.labels import LabelReader
from manyheads.data.readers import find_file, name_lines, read_chunks
from manyheads.data.source_limits import limit_sources
from manyheads.data.source_visits import SourceVisits
from manyheads.data.table import Table
from manyheads.data.unlabelled import append_unlabelled
from manyheads.errors import UserError
from manyheads.seeding import generator
from manyheads.tasks.columns import choose_columns
from manyheads.tasks.resolve import choose_reader, no_reader, resolve_task
from manyheads.tasks.same_rows import leaks_between, same_rows
from manyheads.tasks.task import Task

# `evaluate.select: auto`: a share of a task's rows, but at least USEFUL_SELECTED of them, of a small task at most the
# share MOST_SELECTED
SELECTED_SHARE = 0.05
USEFUL_SELECTED = 100
MOST_SELECTED = 0.1
FEWEST_ROWS = 100  # a task with fewer gives none
MUCH = 10  # a class with so many times the rows of another is worth a word


@dataclass
class TaskData:
    """A task and its splits."""

    task: Task
    train: Dataset
    dev: Dataset
    select: Dataset | None  # held out of train to choose checkpoints on, where the recipe wants that
    test: Dataset | None
    row_group: str | None  # the name of its rows, where other tasks read the same ones
    notes: list[str]  # what the user should know of the data, one sentence each
    folds: Folds  # of train's rows but those that only teachers know anything of
    unlabelled_rows: int = 0  # the last rows of train, which only teachers know anything of
    visits: SourceVisits | None = None  # how often a pass visits the rows of its sources, where they have weights
    left_out: LeftOut | None = None  # the fold that train is without

    @property
    def pass_size(self) -> int:
        """How many examples a pass over train has."""
        return len(self.train) if self.visits is None else self.visits.size


def load_tasks(recipe: Recipe) -> dict[str, TaskData]:
    """Read and check the data of every task of a recipe. All missing files are reported at once."""
    check_files(recipe)
    row_groups = same_rows(recipe)
    leaks = leaks_between(recipe, row_groups)
    loaded: dict[str, TaskData] = {}
    for name in sorted(recipe.tasks, key=lambda name: recipe.tasks[name].head_of is not None):  # owners of heads first
        head_of = recipe.tasks[name].head_of
        owner = loaded[head_of].task if head_of else None
        loaded[name] = _TaskLoader(recipe, name, row_groups).load(owner)
        if name in leaks:
            loaded[name].notes.append(leaks[name])
    return {name: loaded[name] for name in recipe.tasks}


def read_unlabelled(
    task: Task, sources: list[Source], root: Path, split: str, location: str, skip_bad: bool | None = None
) -> Dataset:
    """The texts of a split in file order; its labels, if it has any, are not read."""
    columns = replace(task.columns, label=None)
    return label_rows(read_rows(sources, root, split, columns, location), None, skip_bad, location)


def check_files(recipe: Recipe) -> None:
    missing = []
    for name, settings in recipe.tasks.items():
        for split in SOURCE_KEYS:
            for index, source in enumerate(getattr(settings, split) or []):
                if _absent(source, recipe) and not source.optional:
                    location = recipe.location("tasks", name, split, index)
                    missing.append(f"{location}: no file '{source.file}' in {recipe.data.root}.")
    if missing:
        missing.append("File names are relative to the recipe's folder, or to data.root.")
        raise UserError("\n".join(missing), code="missing-file")


def _absent(source: Source, recipe: Recipe) -> bool:
    return source.file is not None and find_file(source, Path(recipe.data.root or ".")) is None


class _TaskLoader:
    """Reads one task's splits, from its files to datasets with labels."""

    def __init__(self, recipe: Recipe, name: str, row_groups: dict[str, str]) -> None:
        self.recipe, self.name, self.row_group = recipe, name, row_groups.get(name)
        self.settings = recipe.tasks[name]
        self.root = Path(recipe.data.root or ".")
        self.skip_bad = (self.settings.bad_rows or recipe.data.bad_rows) == "skip"
        self.notes: list[str] = []
        self.sources = {split: present_sources(recipe, name, split, self.notes) for split in SOURCE_KEYS}
        if not self.sources["train"]:
            raise UserError(f"{self._location('train')}: none of its optional files is there.", code="missing-file")
        self.columns = choose_columns(self.settings, self.sources["train"][0], self.root)
        # whether a pair and the same the other way round count as one, to any of the tasks that read these rows
        readers = [other for other, row_group in row_groups.items() if row_group == self.row_group]
        self.symmetric = len(self.columns.text) == 2 and any(
            recipe.tasks[reader].symmetric for reader in readers or [name]
        )
        self.extra_rows: ExtraRows | None = None

    def load(self, owner: Task | None) -> TaskData:
        """`owner`: the task whose head this one uses."""
        train_table = self._read("train")
        reader = self._choose_reader(train_table)
        train = self._label("train", train_table, reader)
        if any(source.left_out_splits for source in self.sources["train"]):
            self.extra_rows = ExtraRows(self.sources["train"], train_table, self.symmetric)
        if self.sources["dev"]:
            dev = self._label("dev", self._read("dev"), reader)
        else:
            train, dev = self._hold_out(train, "dev", self.recipe.data.dev_share)
            self.notes.append(f"{self.name}: no dev data; {len(dev):,} rows of train are held out as dev")
        train = self._leave_out(train, dev)
        train, limits = limit_sources(train, self.sources["train"], self.row_group or self.name)
        self.notes += [f"{self.name}: {note}" for note in limits]
        train = self._part(train, self.settings.max_train, "train")
        dev = self._part(dev, self.settings.max_dev, "dev")
        train, select = self._hold_out_selection(train)
        train = self._leave_out_selected(train, select)
        train, left_out = self._leave_out_fold(train)
        assert train.labels is not None
        task = resolve_task(self.recipe, self.name, self.columns, reader, train.labels[train.labelled], owner)
        self.notes += _imbalance(task)
        self.notes += _joined_classes(task)
        if self.settings.symmetric and not task.symmetric:
            same = f"'{task.encoding.name}' gives the same in both orders"
            self.notes.append(f"{self.name}: `symmetric` changes nothing, for {same}")
        test = self._read_test(task, reader)
        weights = [source.weight for source in self.sources["train"]]
        labelled_rows = len(train)
        folds = self._folds(train)
        if self.sources["unlabelled"]:
            train = append_unlabelled(train, self._read_texts("unlabelled", task), reader)
            weights += [1.0] * len(self.sources["unlabelled"])
            self.notes.append(f"{self.name}: {len(train) - labelled_rows:,} texts without labels are for its teachers")
        return TaskData(
            task,
            train,
            dev,
            select,
            test,
            self.row_group,
            self.notes,
            folds,
            unlabelled_rows=len(train) - labelled_rows,
            visits=SourceVisits.of(train.files, weights),
            left_out=left_out,
        )

    def _leave_out(self, train: Dataset, dev: Dataset) -> Dataset:
        """Without extra rows that dev or test has, or that repeat others."""
        if self.extra_rows is None:
            return train
        train = self.extra_rows.leave_out(train, dev.texts, "dev")
        if self.sources["test"]:
            columns = replace(self.columns, label=None)
            test = read_rows(self.sources["test"], self.root, "test", columns, self._location("test"))
            train = self.extra_rows.leave_out(train, test.texts, "test")
        return self.extra_rows.leave_out_repeats(train)

    def _leave_out_selected(self, train: Dataset, select: Dataset | None) -> Dataset:
        """Without extra rows that the part has which chooses checkpoints; then a note of all that was left out."""
        if self.extra_rows is None:
            return train
        if select is not None:
            train = self.extra_rows.leave_out(train, select.texts, "dev")
        self.notes += [f"{self.name}: {note}" for note in self.extra_rows.notes(train)]
        if not len(train):
            raise UserError(
                f"{self._location('train')}: every row is left out: its text is in dev or test (leave_out).",
                code="no-rows",
            )
        return train

    def _location(self, key: str) -> str:
        return self.recipe.location("tasks", self.name, key)

    def _read(self, split: str) -> Table:
        return read_rows(self.sources[split], self.root, split, self.columns, self._location(split))

    def _choose_reader(self, train: Table) -> LabelReader:
        try:
            return choose_reader(self.settings, self.columns, train.distinct_labels())
        except ValueError as fault:
            if not any(train.distinct_labels()) and len(train):
                columns = ", ".join(label_columns(self.columns))
                raise UserError(
                    f"{self._location('label')}: no row of train has a label in column '{columns}'.", code="no-labels"
                ) from None
            label_rows(train, None, self.skip_bad, self._location("train"))  # bad rows, if any, are the reason
            raise no_reader(self.recipe, self.name, str(fault)) from None

    def _label(self, split: str, table: Table, reader: LabelReader) -> Dataset:
        dataset = label_rows(table, reader, self.skip_bad, self._location(split), blanks=self.row_group is not None)
        bad_labels = dataset.skipped - len(table.bad)
        blank = len(dataset) - int(dataset.labelled.sum()) - bad_labels
        if blank and self.row_group is not None:
            self.notes.append(f"{self.name}: {blank:,} of {len(dataset):,} {split} rows have no label for it")
        self._note_skipped(split, dataset)
        repairs = count_repairs(table, reader)
        if repairs:
            tags = "1 tag" if repairs == 1 else f"{repairs:,} tags"
            broken = "breaks the rules of {0} and is" if repairs == 1 else "break the rules of {0} and are"
            self.notes.append(f"{self.name}: {tags} of {split} {broken.format(reader.scheme)} repaired")
        return dataset

    def _read_test(self, task: Task, reader: LabelReader) -> Dataset | None:
        """With labels where all its files have them; else its texts alone."""
        if not self.sources["test"]:
            return None
        test = self._label_test(reader)
        if test is None:
            return self._read_texts("test", task)
        self._note_skipped("test", test)
        return test

    def _read_texts(self, split: str, task: Task) -> Dataset:
        """Without labels."""
        sources = self.sources[split]
        texts = read_unlabelled(task, sources, self.root, split, self._location(split), self.skip_bad)
        self._note_skipped(split, texts)
        return texts

    def _label_test(self, reader: LabelReader) -> Dataset | None:
        """None where the labels are not there, or say nothing: hidden ones are often written as −1."""
        names = set(label_columns(self.columns))
        for source in self.sources["test"]:
            named_source = name_lines(source, self.columns.text, self.columns.label)
            if not names <= set(next(read_chunks(named_source, self.root, "test")).columns):
                return None
        try:
            return label_rows(self._read("test"), reader, self.skip_bad, self._location("test"), blanks=True)
        except UserError as fault:
            lines = str(fault).splitlines()
            reason = lines[min(1, len(lines) - 1)].strip()  # of bad rows the first, beneath how many there are
            self.notes.append(
                f"{self.name}: test is predicted but not measured, for not all labels are usable: {reason}"
            )
            return None

    def _note_skipped(self, split: str, dataset: Dataset) -> None:
        if dataset.skipped:
            rows = "1 bad row" if dataset.skipped == 1 else f"{dataset.skipped:,} bad rows"
            self.notes.append(f"{self.name}: {rows} of {split} skipped (bad_rows: skip)")

    def _part(self, dataset: Dataset, at_most: int | None, split: str) -> Dataset:
        """At most so many rows, drawn at random and left in their order."""
        if at_most is None or at_most >= len(dataset):
            return dataset
        order = generator(0, "part", split, self.row_group or self.name).permutation(len(dataset))
        return dataset.take(np.sort(order[:at_most]))

    def _hold_out_selection(self, train: Dataset) -> tuple[Dataset, Dataset | None]:
        """Train, and what checkpoints are chosen on; None is dev."""
        share = self.recipe.evaluate.select
        if share is None:
            return train, None
        if share != "auto":
            train, select = self._hold_out(train, "select", share)
            rows = f"{len(select):,} rows of train are held out"
            self.notes.append(f"{self.name}: {rows} to choose checkpoints on (evaluate.select)")
            return train, select
        eligible = len(self._eligible(train))
        if eligible < FEWEST_ROWS:
            self.notes.append(f"{self.name}: too few rows to hold some out, so its dev chooses checkpoints")
            return train, None
        return self._hold_out(train, "select", max(SELECTED_SHARE, min(MOST_SELECTED, USEFUL_SELECTED / eligible)))

    def _eligible(self, dataset: Dataset) -> np.ndarray:
        """The rows that may be held out: those that are not extra."""
        if self.extra_rows is None:
            return np.arange(len(dataset))
        return np.flatnonzero(self.extra_rows.are_base(dataset))

    def _leave_out_fold(self, train: Dataset) -> tuple[Dataset, LeftOut | None]:
        fold = self.settings.without_fold
        if fold is None:
            return train, None
        folds = self._folds(train)
        kept = train.take(np.flatnonzero(~folds.contain(fold)))
        if not kept.labelled.any() or len(kept) == len(train):
            raise UserError(
                f"{self._location('without_fold')}: {len(train):,} rows are too few for {fold.of} folds.",
                code="too-few-rows",
            )
        self.notes.append(f"{self.name}: {len(train) - len(kept):,} rows of train are left out (without_fold)")
        return kept, folds.without(fold)

    def _folds(self, train: Dataset) -> Folds:
        return Folds(train, self.row_group or self.name, self.symmetric, self.extra_rows)

    def _hold_out(self, dataset: Dataset, split: str, share: float) -> tuple[Dataset, Dataset]:
        """A text is on one side only. Tasks that read the same rows hold out the same ones: none trains on what
        another is measured on.

        So does every seed: runs that differ in nothing but the seed are measured on the same examples.
        """
        instead = "name `dev`" if split == "dev" else "leave out evaluate.select"
        eligible = self._eligible(dataset)
        if len(eligible) < 2:
            raise UserError(
                f"{self._location('train')}: one row is too few to hold out a {split} set; {instead}.",
                code="too-few-rows",
            )
        order = generator(0, split, self.row_group or self.name).permutation(len(eligible))
        count = min(len(eligible) - 1, max(1, round(len(eligible) * share)))
        candidates = dataset if len(eligible) == len(dataset) else dataset.take(eligible)
        _, held_out_places = hold_out_rows(candidates, order, count, self.symmetric)
        is_held_out = np.zeros(len(dataset), dtype=bool)
        is_held_out[eligible[held_out_places]] = True
        train, held_out = dataset.take(np.flatnonzero(~is_held_out)), dataset.take(np.flatnonzero(is_held_out))
        if not train.labelled.any() or not held_out.labelled.any():
            raise UserError(
                f"{self._location('train')}: too few labelled rows to hold out a {split} set; {instead}.",
                code="too-few-rows",
            )
        return train, held_out


def present_sources(recipe: Recipe, name: str, split: str, notes: list[str]) -> list[Source]:
    """A split's sources without the optional files that are not there; each of those gets a note."""
    sources = recipe.tasks[name].sources(split)
    missing = [source for source in sources if _absent(source, recipe)]
    notes += [f"{name}: optional {split} file '{source.file}' is not there and left out" for source in missing]
    return [source for source in sources if source not in missing]


def _joined_classes(task: Task) -> list[str]:
    """Classes that look like several: a task whose rows have more than one was taken for one of exclusive classes."""
    if not task.kind.has_classes or not task.kind.exclusive:
        return []
    joined = [name for name in task.labels.names if task.labels.joining_separator(name) is not None]
    if not joined:
        return []
    separator = task.labels.joining_separator(joined[0])
    return [
        f"{task.name}: {len(joined)} of {len(task.labels.names)} classes are others with '{separator}' between them, "
        f"such as '{joined[0]}': where a row may have several classes, set `kind: multi-label`"
    ]


def _imbalance(task: Task) -> list[str]:
    """Rare classes are worth a word before training, not after."""
    if task.kind.per_word or not task.counts or max(task.counts) <= MUCH * min(task.counts):
        return []
    count_of = dict(zip(task.labels.names, task.counts, strict=True))
    empty = [repr(name) for name, count in count_of.items() if not count]
    if empty:
        return [f"{task.name}: no train row has class {', '.join(empty[:6])}"]
    rare = min(count_of, key=count_of.__getitem__)
    common = max(count_of, key=count_of.__getitem__)
    advice = ""
    if "class_weights" in registry.find("losses", task.loss.name).options.model_fields:
        advice = f"; `loss: {{name: {task.loss.name}, class_weights: balanced}}` would weigh them alike"
    return [
        f"{task.name}: class '{rare}' has {count_of[rare]:,} of {task.train_examples:,} train rows, '{common}' has "
        f"{count_of[common]:,}{advice}"
    ]
