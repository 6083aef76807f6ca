"""Task: columns in, label out, and the parts between. One dataclass; no subclass per dataset."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.data.examples import Columns, Examples, label_rows, read_rows, recognise_columns
from manyheads.data.labels import Kind, LabelReader, infer_reader
from manyheads.data.readers import find_file, read_chunks, source_name
from manyheads.errors import UserError
from manyheads.recipe import Choice, Predictions, Recipe, Source, TaskSettings, dump_choice
from manyheads.seeding import generator


@dataclass(frozen=True)
class Task:
    """A task with nothing left to guess: what a run needs to train it and a reader needs to use it."""

    name: str
    columns: Columns
    labels: LabelReader
    encoding: Choice
    pooling: Choice
    head: Choice
    loss: Choice
    offset: float = 0.0  # a regression's head works on (label − offset) / unit
    unit: float = 1.0
    predictions: Predictions = field(default_factory=Predictions)

    @property
    def kind(self) -> Kind:
        return self.labels.kind

    @property
    def pair(self) -> bool:
        return len(self.columns.text) == 2

    def to_json(self) -> dict[str, Any]:
        choices = {part: dump_choice(getattr(self, part)) for part in ("encoding", "pooling", "head", "loss")}
        return {
            "name": self.name,
            "columns": asdict(self.columns),
            "labels": asdict(self.labels),
            **choices,
            "offset": self.offset,
            "unit": self.unit,
            "predictions": self.predictions.model_dump(),
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Task:
        def choice(part: str) -> Choice:
            value = saved[part]
            if isinstance(value, str):
                return Choice(name=value)
            return Choice(name=value["name"], options={key: one for key, one in value.items() if key != "name"})

        labels, columns = saved["labels"], saved["columns"]
        return cls(
            name=saved["name"],
            columns=Columns(tuple(columns["text"]), columns["label"], columns["id"]),
            labels=LabelReader(
                labels["kind"],
                tuple(labels["names"]),
                labels["values"],
                tuple(labels["range"]) if labels["range"] else None,
            ),
            encoding=choice("encoding"),
            pooling=choice("pooling"),
            head=choice("head"),
            loss=choice("loss"),
            offset=saved["offset"],
            unit=saved["unit"],
            predictions=Predictions(**saved["predictions"]),
        )


@dataclass
class TaskData:
    """A task and its splits."""

    task: Task
    train: Examples
    dev: Examples
    test: Examples | None
    notes: list[str]  # what the user should know of the data, one sentence each


def load_tasks(recipe: Recipe) -> dict[str, TaskData]:
    """Read and check the data of every task of a recipe. All missing files are reported at once."""
    _check_files(recipe)
    return {name: _load_task(recipe, name, settings) for name, settings in recipe.tasks.items()}


def read_unlabelled(
    task: Task, sources: list[Source], root: Path, split: str, place: str, skip_bad: bool | None = None
) -> Examples:
    """The texts of a split in file order; its labels, if it has any, are not read."""
    columns = Columns(task.columns.text, None, task.columns.id)
    return label_rows(read_rows(sources, root, split, columns, place), None, skip_bad, place)


def _check_files(recipe: Recipe) -> None:
    missing = [
        f"{recipe.place('tasks', name, split, index)}: no file '{source.file}' in {recipe.data.root}."
        for name, settings in recipe.tasks.items()
        for split in ("train", "dev", "test")
        for index, source in enumerate(getattr(settings, split) or [])
        if _absent(source, recipe) and not source.optional
    ]
    if missing:
        raise UserError("\n".join(missing) + "\nFile names are relative to the recipe's folder, or to data.root.")


def _absent(source: Source, recipe: Recipe) -> bool:
    return source.file is not None and find_file(source, Path(recipe.data.root or ".")) is None


def _load_task(recipe: Recipe, name: str, settings: TaskSettings) -> TaskData:
    root = Path(recipe.data.root or ".")
    skip_bad = (settings.bad_rows or recipe.data.bad_rows) == "skip"
    notes: list[str] = []
    sources = {split: _present(recipe, name, split, notes) for split in ("train", "dev", "test")}
    if not sources["train"]:
        raise UserError(f"{recipe.place('tasks', name, 'train')}: none of its optional files is there.")
    columns = _choose_columns(settings, sources["train"][0], root)
    raw = read_rows(sources["train"], root, "train", columns, recipe.place("tasks", name, "train"))
    try:
        reader = infer_reader(raw.labels, settings.kind, settings.labels, settings.range)
    except ValueError as fault:
        label_rows(raw, None, skip_bad, recipe.place("tasks", name, "train"))  # bad rows, if any, are the reason
        raise UserError(f"{recipe.place('tasks', name)}: {fault}.") from None
    train = label_rows(raw, reader, skip_bad, recipe.place("tasks", name, "train"))
    notes += _skipped(name, "train", train)
    if sources["dev"]:
        rows = read_rows(sources["dev"], root, "dev", columns, recipe.place("tasks", name, "dev"))
        dev = label_rows(rows, reader, skip_bad, recipe.place("tasks", name, "dev"))
        notes += _skipped(name, "dev", dev)
    else:
        train, dev = _hold_out(train, recipe, name)
        notes.append(f"{name}: no dev data; {len(dev):,} rows of train are held out as dev")
    task = _complete(recipe, name, settings, columns, reader, train)
    test = None
    if sources["test"]:
        test = read_unlabelled(task, sources["test"], root, "test", recipe.place("tasks", name, "test"), skip_bad)
        notes += _skipped(name, "test", test)
    return TaskData(task, train, dev, test, notes)


def _present(recipe: Recipe, name: str, split: str, notes: list[str]) -> list[Source]:
    """A split's sources without the optional files that are not there; each of those gets a note."""
    sources: list[Source] = getattr(recipe.tasks[name], split) or []
    missing = [source for source in sources if _absent(source, recipe)]
    notes += [f"{name}: optional {split} file '{source.file}' is not there and left out" for source in missing]
    return [source for source in sources if source not in missing]


def _skipped(name: str, split: str, examples: Examples) -> list[str]:
    rows = "1 bad row" if examples.skipped == 1 else f"{examples.skipped:,} bad rows"
    return [f"{name}: {rows} of {split} skipped (bad_rows: skip)"] if examples.skipped else []


def _choose_columns(settings: TaskSettings, source: Source, root: Path) -> Columns:
    if settings.text and settings.label:
        return Columns(tuple(settings.text), settings.label, settings.id)
    names = next(read_chunks(source, root, "train")).columns
    found = recognise_columns(source_name(source, "train"), names, settings.text, settings.label)
    return Columns(found.text, found.label, settings.id)


def _hold_out(examples: Examples, recipe: Recipe, name: str) -> tuple[Examples, Examples]:
    if len(examples) < 2:
        raise UserError(
            f"{recipe.place('tasks', name, 'train')}: one row is too few to hold out a dev set; name `dev`."
        )
    order = generator(recipe.seed, "dev", name).permutation(len(examples))
    count = min(len(examples) - 1, max(1, round(len(examples) * recipe.data.dev_share)))
    return examples.take(np.sort(order[count:])), examples.take(np.sort(order[:count]))


def _complete(
    recipe: Recipe, name: str, settings: TaskSettings, columns: Columns, reader: LabelReader, train: Examples
) -> Task:
    """Fill in what the recipe left open."""
    pair = len(columns.text) == 2
    if reader.kind == "regression":
        loss = "mse"
    else:
        loss = "binary-cross-entropy" if len(reader.names) == 2 else "cross-entropy"
    offset, unit = _scale(settings, reader, train)
    task = Task(
        name=name,
        columns=columns,
        labels=reader,
        encoding=settings.encoding or Choice(name="cross" if pair else "single"),
        pooling=settings.pooling,
        head=settings.head,
        loss=settings.loss or Choice(name=loss),
        offset=offset,
        unit=unit,
        predictions=settings.predictions,
    )
    for part, family in (("encoding", "encodings"), ("loss", "losses")):
        fault = getattr(task, part).build(family).unfit(task)
        if fault:
            raise UserError(f"{recipe.place('tasks', name, part)}: {fault}")
    return task


def _scale(settings: TaskSettings, reader: LabelReader, train: Examples) -> tuple[float, float]:
    """(offset, unit) of a regression's labels. On the standard scale its loss starts at 1, of the size of the other
    tasks' losses: raw scores of 0 to 5 would drown them."""
    if reader.kind != "regression" or settings.scale == "raw" or train.labels is None:
        return 0.0, 1.0
    if settings.scale == "unit":
        low, high = reader.range or (float(train.labels.min()), float(train.labels.max()))
        return low, (high - low) or 1.0
    return float(train.labels.mean()), float(train.labels.std()) or 1.0
