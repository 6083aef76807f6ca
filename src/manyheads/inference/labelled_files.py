"""Labelled files to evaluate on: which tasks they are for, by their columns, and their rows with labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from manyheads.config.task import Source
from manyheads.data.dataset import Dataset, label_columns, label_rows, read_rows
from manyheads.data.labels import BadLabel
from manyheads.data.table import Columns, Table
from manyheads.errors import UserError
from manyheads.inference.texts import columns_of_file
from manyheads.tasks.task import Task

Files = str | Path | Sequence[str | Path]


def read_labelled_files(
    tasks: Mapping[str, Task], files: Files, skip_bad_rows: Collection[str]
) -> tuple[dict[str, Dataset], dict[str, str]]:
    """The rows of every task whose text and label columns a file has; and of the other tasks, why they have none.

    A row without a task's label is kept, unlabelled. A row that cannot be used is an error that names file and line,
    unless it is one of a task whose bad rows are to be skipped. Where there are several tasks, a file in which most
    labels are not a task's own is taken for another task's.
    """
    paths = [files] if isinstance(files, str | Path) else list(files)
    present = {path: columns_of_file(path) for path in paths}
    for path in paths:
        if not any(present[path].issuperset(_columns(task)) for task in tasks.values()):
            raise _no_tasks_columns(path, present[path], tasks)
    examples: dict[str, Dataset] = {}
    unmeasured: dict[str, str] = {}
    for name, task in tasks.items():
        own_files: list[str] = []
        reason = f"no file has the columns {', '.join(_columns(task))}"
        for path in paths:
            if not present[path].issuperset(_columns(task)):
                continue
            foreign = None
            if len(tasks) > 1:
                foreign = _why_foreign(task, _read_rows(task, [str(path)]))
            if foreign is None:
                own_files.append(str(path))
            else:
                reason = f"{path}: {foreign}"
        if own_files:
            examples[name] = _label_rows(task, own_files, name in skip_bad_rows, len(tasks) > 1)
        else:
            unmeasured[name] = reason
    return examples, unmeasured


def _columns(task: Task) -> tuple[str, ...]:
    return (*task.columns.text, *label_columns(task.columns))


def _read_rows(task: Task, files: list[str]) -> Table:
    columns = Columns(task.columns.text, task.columns.label, None)
    return read_rows([Source(file=file) for file in files], Path.cwd(), "test", columns, f"task '{task.name}'")


def _label_rows(task: Task, files: list[str], skip_bad: bool, several_tasks: bool) -> Dataset:
    skipping = True if skip_bad else None  # None: there is no recipe in which to ask for it
    try:
        return label_rows(_read_rows(task, files), task.labels, skipping, f"task '{task.name}'", blanks=True)
    except UserError as fault:
        if not several_tasks:
            raise
        raise UserError(f"{fault} If the file is another task's, name that task: --task.", code=fault.code) from None


def _why_foreign(task: Task, rows: Table) -> str | None:
    """Why a file that has a task's columns is not the task's: it has no labels, or most of them are not the task's."""
    labels = [label for label in rows.distinct_labels() if label]
    faults: list[str] = []
    for label in labels:
        try:
            task.labels.read(label)
        except BadLabel as fault:
            faults.append(str(fault))
    if not labels:
        return "no row has a label for it"
    if 2 * len(faults) > len(labels):
        return f"most of its labels are not this task's: {faults[0]}"
    return None


def _no_tasks_columns(path: str | Path, columns: set[str], tasks: Mapping[str, Task]) -> UserError:
    expected: list[str] = []
    for name, task in tasks.items():
        expected.append(f"\n  {name}: {', '.join(_columns(task))}")
    named = ", ".join(sorted(filter(None, columns)))
    return UserError(
        f"{path}: it lacks text or label columns of every task. Columns: {named}. Expected:{''.join(expected)}",
        code="missing-column",
    )
