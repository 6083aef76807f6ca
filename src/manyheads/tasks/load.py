"""A recipe's tasks with their data: read, checked, completed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyheads import registry
from manyheads.config.recipe import Recipe
from manyheads.config.task import Source, TaskSettings
from manyheads.data.dataset import Dataset, label_columns, label_rows, read_rows, recognise_columns
from manyheads.data.labels import LabelReader
from manyheads.data.readers import find_file, read_chunks, source_name
from manyheads.data.table import Columns
from manyheads.errors import UserError
from manyheads.seeding import generator
from manyheads.tasks.resolve import choose_reader, no_reader, resolve_task
from manyheads.tasks.task import Task

MUCH = 10  # a class with so many times the rows of another is worth a word


@dataclass
class TaskData:
    """A task and its splits."""

    task: Task
    train: Dataset
    dev: Dataset
    select: Dataset | None  # held out of train to choose checkpoints on, where the recipe wants that
    test: Dataset | None
    rows: str | None  # the name of its rows, where other tasks read the same ones
    notes: list[str]  # what the user should know of the data, one sentence each


def load_tasks(recipe: Recipe) -> dict[str, TaskData]:
    """Read and check the data of every task of a recipe. All missing files are reported at once."""
    check_files(recipe)
    rows = same_rows(recipe)
    leaks = _leaks(recipe, rows)
    loaded: dict[str, TaskData] = {}
    for name in sorted(recipe.tasks, key=lambda name: recipe.tasks[name].head_of is not None):  # owners of heads first
        settings = recipe.tasks[name]
        owner = loaded[settings.head_of].task if settings.head_of else None
        loaded[name] = _load_task(recipe, name, settings, rows.get(name), owner)
        loaded[name].notes += [leaks[name]] if name in leaks else []
    return {name: loaded[name] for name in recipe.tasks}


def read_unlabelled(
    task: Task, sources: list[Source], root: Path, split: str, location: str, skip_bad: bool | None = None
) -> Dataset:
    """The texts of a split in file order; its labels, if it has any, are not read."""
    columns = Columns(task.columns.text, None, task.columns.id)
    return label_rows(read_rows(sources, root, split, columns, location), None, skip_bad, location)


def same_rows(recipe: Recipe) -> dict[str, str]:
    """Tasks that read the same columns of the same train files, by the name of these rows: 'stars+polarity'.

    Either all of them name dev data or none: else one would train on rows that another holds out.
    """
    if not recipe.data.together:
        return {}
    readers: dict[tuple[str, ...], list[str]] = {}
    for name, settings in recipe.tasks.items():
        text = _text_columns(recipe, settings)
        if text is not None:
            parts = (settings.id, settings.dev is None, settings.max_train)
            key = (_train_files(recipe, settings), *map(str, parts), *text)
            readers.setdefault(key, []).append(name)
    return {name: "+".join(names) for names in readers.values() if len(names) > 1 for name in names}


def _train_files(recipe: Recipe, settings: TaskSettings) -> str:
    """A task's train sources, the same however their paths are written."""
    root = Path(recipe.data.root or ".")
    found = [(source, find_file(source, root) if source.file else None) for source in settings.train]
    return " ".join(str(file.resolve()) if file else source.model_dump_json() for source, file in found)


def _text_columns(recipe: Recipe, settings: TaskSettings) -> tuple[str, ...] | None:
    """The text columns as they will be chosen; None where they cannot be, which is told when the task is read."""
    if settings.text:
        return tuple(settings.text)
    try:
        return choose_columns(settings, settings.train[0], Path(recipe.data.root or ".")).text
    except UserError:
        return None


def _leaks(recipe: Recipe, rows: dict[str, str]) -> dict[str, str]:
    """Tasks whose train rows another task may hold out as dev, though both read the same file: a sentence each."""
    files: dict[str, list[str]] = {}
    for name, settings in recipe.tasks.items():
        files.setdefault(_train_files(recipe, settings), []).append(name)
    found = {}
    for names in files.values():
        for name in names:
            holding = [one for one in names if recipe.tasks[one].dev is None and one != name]
            holding = [one for one in holding if rows.get(one) is None or rows.get(one) != rows.get(name)]
            if holding:
                found[name] = (
                    f"{name}: it reads the train file of {', '.join(holding)} but not the same rows, so it trains on "
                    "texts that are held out there as dev; name `dev` for all of them or for none"
                )
    return found


def check_files(recipe: Recipe) -> None:
    missing = [
        f"{recipe.location('tasks', name, split, index)}: no file '{source.file}' in {recipe.data.root}."
        for name, settings in recipe.tasks.items()
        for split in ("train", "dev", "test")
        for index, source in enumerate(getattr(settings, split) or [])
        if _absent(source, recipe) and not source.optional
    ]
    if missing:
        raise UserError("\n".join(missing) + "\nFile names are relative to the recipe's folder, or to data.root.")


def _absent(source: Source, recipe: Recipe) -> bool:
    return source.file is not None and find_file(source, Path(recipe.data.root or ".")) is None


def _load_task(recipe: Recipe, name: str, settings: TaskSettings, rows: str | None, owner: Task | None) -> TaskData:
    root = Path(recipe.data.root or ".")
    skip_bad = (settings.bad_rows or recipe.data.bad_rows) == "skip"
    notes: list[str] = []
    sources = {split: present_sources(recipe, name, split, notes) for split in ("train", "dev", "test")}
    if not sources["train"]:
        raise UserError(f"{recipe.location('tasks', name, 'train')}: none of its optional files is there.")
    columns = choose_columns(settings, sources["train"][0], root)

    def labelled(split: str, reader: LabelReader) -> Dataset:
        location = recipe.location("tasks", name, split)
        raw = train_rows if split == "train" else read_rows(sources[split], root, split, columns, location)
        found = label_rows(raw, reader, skip_bad, location, blanks=rows is not None)
        bad_labels = found.skipped - len(raw.bad)
        blank = len(found) - int(found.labelled.sum()) - bad_labels
        if blank and rows is not None:
            notes.append(f"{name}: {blank:,} of {len(found):,} {split} rows have no label for it")
        notes.extend(_skipped(name, split, found))
        return found

    train_rows = read_rows(sources["train"], root, "train", columns, recipe.location("tasks", name, "train"))
    try:
        reader = choose_reader(settings, columns, train_rows.distinct_labels())
    except ValueError as fault:
        if not any(train_rows.distinct_labels()) and len(train_rows):
            shown = ", ".join(label_columns(columns))
            location = recipe.location("tasks", name, "label")
            raise UserError(f"{location}: no row of train has a label in column '{shown}'.") from None
        label_rows(
            train_rows, None, skip_bad, recipe.location("tasks", name, "train")
        )  # bad rows, if any, are the reason
        raise no_reader(recipe, name, str(fault)) from None
    train = labelled("train", reader)
    if sources["dev"]:
        dev = labelled("dev", reader)
    else:
        train, dev = _hold_out(train, recipe, name, rows or name, "dev", recipe.data.dev_share)
        notes.append(f"{name}: no dev data; {len(dev):,} rows of train are held out as dev")
    train = _part(train, settings.max_train, rows or name, "train")
    dev = _part(dev, settings.max_dev, rows or name, "dev")
    select = None
    if recipe.evaluate.select is not None:
        train, select = _hold_out(train, recipe, name, rows or name, "select", recipe.evaluate.select)
        notes.append(f"{name}: {len(select):,} rows of train are held out to choose checkpoints on (evaluate.select)")
    assert train.labels is not None
    task = resolve_task(recipe, name, columns, reader, train.labels[train.labelled], owner)
    notes += _imbalance(task)
    test = None
    if sources["test"]:
        test = read_unlabelled(task, sources["test"], root, "test", recipe.location("tasks", name, "test"), skip_bad)
        notes += _skipped(name, "test", test)
    return TaskData(task, train, dev, select, test, rows, notes)


def present_sources(recipe: Recipe, name: str, split: str, notes: list[str]) -> list[Source]:
    """A split's sources without the optional files that are not there; each of those gets a note."""
    sources: list[Source] = getattr(recipe.tasks[name], split) or []
    missing = [source for source in sources if _absent(source, recipe)]
    notes += [f"{name}: optional {split} file '{source.file}' is not there and left out" for source in missing]
    return [source for source in sources if source not in missing]


def _skipped(name: str, split: str, examples: Dataset) -> list[str]:
    rows = "1 bad row" if examples.skipped == 1 else f"{examples.skipped:,} bad rows"
    return [f"{name}: {rows} of {split} skipped (bad_rows: skip)"] if examples.skipped else []


def choose_columns(settings: TaskSettings, source: Source, root: Path) -> Columns:
    """The columns that the recipe names, completed by those that are recognised in the file."""
    label = tuple(settings.label) if isinstance(settings.label, list) else settings.label
    if settings.text and label:
        return Columns(tuple(settings.text), label, settings.id)
    names = next(read_chunks(source, root, "train")).columns
    found = recognise_columns(source_name(source, "train"), names, settings.text, label)
    return Columns(found.text, found.label, settings.id)


def _part(examples: Dataset, at_most: int | None, rows: str, split: str) -> Dataset:
    """At most so many rows, drawn at random and left in their order."""
    if at_most is None or at_most >= len(examples):
        return examples
    return examples.take(np.sort(generator(0, "part", split, rows).permutation(len(examples))[:at_most]))


def _hold_out(
    examples: Dataset, recipe: Recipe, name: str, rows: str, what: str, share: float
) -> tuple[Dataset, Dataset]:
    """Tasks that read the same rows hold out the same ones: none trains on what another is measured on.

    So does every seed: runs that differ in nothing but the seed are measured on the same examples.
    """
    if len(examples) < 2:
        raise UserError(
            f"{recipe.location('tasks', name, 'train')}: one row is too few to hold out a {what} set{_instead(what)}."
        )
    order = generator(0, what, rows).permutation(len(examples))
    count = min(len(examples) - 1, max(1, round(len(examples) * share)))
    train, dev = examples.take(np.sort(order[count:])), examples.take(np.sort(order[:count]))
    if not train.labelled.any() or not dev.labelled.any():
        raise UserError(
            f"{recipe.location('tasks', name, 'train')}: too few labelled rows to hold out a {what} set"
            f"{_instead(what)}."
        )
    return train, dev


def _instead(what: str) -> str:
    return "; name `dev`" if what == "dev" else "; leave out evaluate.select"


def _imbalance(task: Task) -> list[str]:
    """Rare classes are worth a word before training, not after."""
    if not task.counts or max(task.counts) <= MUCH * min(task.counts):
        return []
    empty = [name for name, count in zip(task.labels.names, task.counts, strict=True) if not count]
    if empty:
        return [f"{task.name}: no train row has class {', '.join(repr(name) for name in empty[:6])}"]
    rare, common = (task.labels.names[task.counts.index(extreme(task.counts))] for extreme in (min, max))
    weighable = "class_weights" in registry.find("losses", task.loss.name).options.model_fields
    advice = (
        f"; `loss: {{name: {task.loss.name}, class_weights: balanced}}` would weigh them alike" if weighable else ""
    )
    return [
        f"{task.name}: class '{rare}' has {min(task.counts):,} of {task.train_examples:,} train rows, '{common}' has "
        f"{max(task.counts):,}{advice}"
    ]
