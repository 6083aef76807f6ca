"""Labelled files to evaluate on: which tasks they are for, by their columns, and their rows with labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from manyheads.config.task import Source
from manyheads.data.advice import layout_advice, shown_names
from manyheads.data.chunk import Chunk
from manyheads.data.dataset import Dataset, label_columns, label_rows, read_rows
from manyheads.data.labels import BadLabel
from manyheads.data.table import Table, text_columns
from manyheads.errors import UserError
from manyheads.inference.texts import FileLayout, LabelledLayout, first_chunk, source_of_file
from manyheads.tasks.task import Task

Files = str | Path | Sequence[str | Path]


def read_labelled_files(
    tasks: Mapping[str, Task], files: Files, skip_bad_rows: Collection[str], layout: LabelledLayout
) -> tuple[dict[str, Dataset], dict[str, str]]:
    """The rows of every task whose text and label columns a file has; and of the other tasks, why they have none.

    A row without a task's label is kept, unlabelled. A row that cannot be used is an error that names file and line,
    unless it is one of a task whose bad rows are to be skipped. Where there are several tasks, a file in which most
    labels are not a task's own is taken for another task's.
    """
    file_layout, tasks = _named_columns(layout, tasks)
    paths = [files] if isinstance(files, str | Path) else list(files)
    sources = [source_of_file(path, file_layout) for path in paths]
    chunks = [first_chunk(source) for source in sources]
    for source, chunk in zip(sources, chunks, strict=True):
        if not any(_has_columns(chunk, task) for task in tasks.values()):
            raise _no_tasks_columns(source, chunk, tasks)
    examples: dict[str, Dataset] = {}
    unmeasured: dict[str, str] = {}
    for name, task in tasks.items():
        with_columns = [source for source, chunk in zip(sources, chunks, strict=True) if _has_columns(chunk, task)]
        own_sources, reason = _own_sources(task, with_columns, len(tasks) > 1)
        if own_sources:
            examples[name] = _label_rows(task, own_sources, name in skip_bad_rows, len(tasks) > 1)
        else:
            unmeasured[name] = reason
    return examples, unmeasured


def _named_columns(layout: LabelledLayout, tasks: Mapping[str, Task]) -> tuple[FileLayout, Mapping[str, Task]]:
    """How files are read, and the tasks with the columns that were named."""
    file_layout = cast("FileLayout", {key: value for key, value in layout.items() if key in FileLayout.__annotations__})
    texts, label = layout.get("text_columns"), layout.get("label_column")
    if not texts and not label:
        return file_layout, tasks
    if len(tasks) != 1:
        reason = "text and label columns are named of one task; say which: --task (in Python `task`)"
        raise UserError(f"evaluate: {reason}.", code="conflicting-options")
    (task,) = tasks.values()
    if texts and len(texts) != len(task.columns.text):
        expected = "two text columns" if task.pair else "one text column"
        raise UserError(f"evaluate: {task.name} reads {expected}, found {len(texts)}.", code="bad-option")
    own = task.columns
    renamed: dict[object, str] = dict(zip(own.text, texts or own.text, strict=True))  # of a search a text is the label
    columns = replace(own, text=tuple(texts or own.text), label=label or renamed.get(own.label, own.label))
    return file_layout, {task.name: replace(task, columns=columns)}


def _own_sources(task: Task, with_columns: list[Source], several_tasks: bool) -> tuple[list[Source], str]:
    """Of the files that have a task's columns those that are its own; and why there is none, if there is none."""
    if not several_tasks:
        return with_columns, ""
    own_sources: list[Source] = []
    reason = f"no file has the columns {', '.join(_columns(task))}"
    for source in with_columns:
        foreign = _why_foreign(task, _read_rows(task, [source]))
        if foreign is None:
            own_sources.append(source)
        else:
            reason = f"{source.file}: {foreign}"
    return own_sources, reason


def _columns(task: Task) -> tuple[str, ...]:
    return (*text_columns(task.columns), *label_columns(task.columns))


def _has_columns(chunk: Chunk, task: Task) -> bool:
    return set(_columns(task)) <= set(chunk.columns)


def _read_rows(task: Task, sources: list[Source]) -> Table:
    columns = replace(task.columns, id=None)
    return read_rows(sources, Path.cwd(), "test", columns, f"task '{task.name}'")


def _label_rows(task: Task, sources: list[Source], skip_bad: bool, several_tasks: bool) -> Dataset:
    skipping = True if skip_bad else None  # None: there is no recipe in which to ask for it
    try:
        return label_rows(_read_rows(task, sources), task.labels, skipping, f"task '{task.name}'", blanks=True)
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


def _no_tasks_columns(source: Source, chunk: Chunk, tasks: Mapping[str, Task]) -> UserError:
    expected: list[str] = []
    for name, task in tasks.items():
        expected.append(f"\n  {name}: {', '.join(_columns(task))}")
    named = ", ".join(shown_names(chunk))
    advice = layout_advice(source, chunk)
    if not advice:
        advice = " Of one task they may be called otherwise: --task with --text-column and --label-column."
    return UserError(
        f"{source.file}: it lacks text or label columns of every task. Columns: {named}.{advice} "
        f"Expected:{''.join(expected)}",
        code="missing-column",
    )
