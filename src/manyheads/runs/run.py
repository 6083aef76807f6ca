"""A run folder, opened: its recipe, its metrics, its models; evaluate, predict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.config.load import load_run_recipe
from manyheads.config.recipe import Recipe, Source
from manyheads.console import Reporter
from manyheads.data.dataset import Dataset
from manyheads.data.readers import read_chunks
from manyheads.data.table import Table
from manyheads.errors import UserError, nearest
from manyheads.inference.evaluate import Evaluation, evaluate_model
from manyheads.inference.predict import describe, predict_tasks
from manyheads.model.multitask import ManyHeads, TaskTokens
from manyheads.runs.log import LOG_FILE, RunLog
from manyheads.storage.strings import Strings
from manyheads.tasks.load import load_tasks, read_unlabelled
from manyheads.tasks.task import Task
from manyheads.training.checkpoint import load_model

Text = str | tuple[str, str]  # a sentence, or a pair


class Run:
    """What a training left behind. `model` is which of its models to use: 'best' or 'best-TASK'."""

    def __init__(self, folder: str | Path, model: str = "best") -> None:
        self.folder = Path(folder)
        self.model_name = model
        if not all((self.folder / name).is_file() for name in ("recipe.yaml", LOG_FILE)):
            raise UserError(f"{self.folder}: not a run folder: it has no recipe.yaml and log.jsonl.")

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, model={self.model_name!r})"

    @cached_property
    def recipe(self) -> Recipe:
        return load_run_recipe(self.folder / "recipe.yaml")

    @property
    def metrics(self) -> dict[str, Any]:
        """What metrics.json says; empty while the run is not finished."""
        file = self.folder / "metrics.json"
        return json.loads(file.read_text()) if file.is_file() else {}

    @cached_property
    def loaded(self) -> tuple[ManyHeads, dict[str, Any]]:
        _ = self.recipe  # whose `imports` hold the parts that the model may be made of
        folder = self.folder / self.model_name
        if not folder.is_dir() and not folder.with_name(f".{folder.name}.old").is_dir():
            there = [one.name for one in self.folder.glob("best*") if one.is_dir()]
            if not there:
                raise UserError(f"{self.folder}: no model yet. `manyheads resume {self.folder}` finishes the run.")
            raise UserError(f"{self.folder}: no model '{self.model_name}'.{nearest(self.model_name, there)}")
        return load_model(folder)

    def log(self) -> list[dict[str, Any]]:
        """The records of log.jsonl so far; the run may still write it."""
        return RunLog(self.folder / LOG_FILE).records()

    @property
    def model(self) -> ManyHeads:
        return self.loaded[0]

    @property
    def about(self) -> dict[str, Any]:
        """Which step the model is of, and on what it was chosen."""
        return self.loaded[1]

    def task(self, name: str | None) -> Task:
        tasks = self.model.tasks
        if name is None and len(tasks) == 1:
            return next(iter(tasks.values()))
        if name is None or name not in tasks:
            what = f"no task '{name}'" if name else "say which task"
            raise UserError(f"{self.folder}: {what}.{nearest(name or '', tasks)}")
        return tasks[name]

    def evaluate(self, reporter: Reporter | None = None) -> Evaluation:
        """Metrics on the whole dev set of every task, read again from the recipe's files."""
        reporter = reporter or Reporter(quiet=True)
        data = {
            name: TaskTokens(self.model.tasks[name], loaded.dev, self.model.tokenizer, rows=loaded.rows)
            for name, loaded in load_tasks(self.recipe).items()
        }
        known = self.metrics.get("data", {})
        for name, split in data.items():
            if split.fingerprint() != known.get(f"{name} dev", split.fingerprint()):
                if self.recipe.tasks[name].dev is None:
                    raise UserError(
                        f"task '{name}': its training file has changed since the run, and dev was held out of it: rows "
                        "that were trained on would be counted. Restore the file, or name a `dev` file."
                    )
                reporter.say(f"note: {name}: its dev data has changed since the run")
        return evaluate_with_progress(self.model, data, self.recipe, reporter)[0]

    def predict(self, task: str | None, texts: Sequence[Text]) -> list[dict[str, Any]]:
        """Answers in the order of the texts: {'prediction': …} and, for classes, their probabilities."""
        chosen = self.task(task)
        return self._predict_dataset([chosen], _examples(texts, len(chosen.columns.text), chosen.name))[chosen.name]

    def predict_all(self, texts: Sequence[Text]) -> dict[str, list[dict[str, Any]]]:
        """The same of every task that takes such texts, single or pairs; one encoder pass answers all that it can."""
        wanted = 2 if texts and not isinstance(texts[0], str) else 1
        chosen = [task for task in self.model.tasks.values() if len(task.columns.text) == wanted]
        if not chosen:
            raise UserError(f"{self.folder}: no task takes {'pairs' if wanted == 2 else 'single texts'}.")
        return self._predict_dataset(chosen, _examples(texts, wanted, chosen[0].name))

    def predict_file(self, task: str | None, file: str | Path) -> tuple[list[str], list[dict[str, Any]]]:
        """Ids and answers for every row of a csv, tsv, jsonl or parquet file with the task's text columns."""
        chosen = self.task(task)
        ids, predictions = self._predict_file([chosen], file)
        return ids, predictions[chosen.name]

    def predict_file_all(self, file: str | Path) -> tuple[list[str], dict[str, list[dict[str, Any]]]]:
        """The same of every task whose text columns the file has."""
        source = Source(file=str(file))
        if not Path(file).is_file():
            raise UserError(f"{file}: no such file.")
        columns = set(next(read_chunks(source, Path.cwd(), "test")).columns)
        first = next((task for task in self.model.tasks.values() if set(task.columns.text) <= columns), None)
        if first is None:
            wanted = "; ".join(f"{task.name}: {', '.join(task.columns.text)}" for task in self.model.tasks.values())
            raise UserError(f"{file}: it has the text columns of no task. Expected {wanted}.")
        chosen = [task for task in self.model.tasks.values() if task.columns.text == first.columns.text]
        return self._predict_file(chosen, file)

    def _predict_file(self, tasks: list[Task], file: str | Path) -> tuple[list[str], dict[str, list[dict[str, Any]]]]:
        if not Path(file).is_file():
            raise UserError(f"{file}: no such file.")
        examples = read_unlabelled(tasks[0], [Source(file=str(file))], Path.cwd(), "test", str(file))
        return examples.ids.to_pylist(), self._predict_dataset(tasks, examples)

    def _predict_dataset(self, tasks: list[Task], examples: Dataset) -> dict[str, list[dict[str, Any]]]:
        if not len(examples):
            return {task.name: [] for task in tasks}
        first = TaskTokens(tasks[0], examples, self.model.tokenizer, cached=False)
        data = {task.name: first.of(task) for task in tasks}
        found = predict_tasks(self.model, data, self.recipe.evaluate.tokens_per_pass)
        return {task.name: describe(task, found[task.name]) for task in tasks}


def _examples(texts: Sequence[Text], wanted: int, task: str) -> Dataset:
    """Texts given by a program, checked like those of a file."""
    if isinstance(texts, str):
        raise UserError("predict takes a list of texts, found one string; put it in brackets.")
    columns: list[list[str]] = [[] for _ in range(wanted)]
    for number, text in enumerate(texts, start=1):
        parts = tuple(text) if isinstance(text, tuple | list) else (text,)
        if len(parts) != wanted:
            raise UserError(
                f"input {number}: task '{task}' takes {'two texts' if wanted == 2 else 'one text'}, found {len(parts)}."
            )
        for column, part in zip(columns, parts, strict=True):
            if not isinstance(part, str):
                raise UserError(f"input {number}: expected text, found {part!r}.")
            if not part.strip():
                raise UserError(f"input {number}: empty text.")
            if any("\ud800" <= letter <= "\udfff" for letter in part):
                raise UserError(f"input {number}: not valid UTF-8.")
            column.append(part.strip())
    count = len(columns[0])
    sides, ids = tuple(map(Strings.of, columns)), Strings.of(map(str, range(count)))
    lines, files = np.arange(1, count + 1), np.zeros(count, dtype=np.int16)
    return Dataset(Table(sides, None, ids, lines, files, ("input",), []), None)


def evaluate_with_progress(
    model: ManyHeads,
    data: dict[str, TaskTokens],
    recipe: Recipe,
    reporter: Reporter,
    rows: dict[str, np.ndarray] | None = None,
) -> tuple[Evaluation, dict[str, np.ndarray]]:
    """`evaluate_model` with a progress line over the examples of all tasks."""
    sizes = {
        name: int(split.examples.labelled.sum()) if rows is None else len(rows[name]) for name, split in data.items()
    }
    with reporter.job("evaluate", sum(sizes.values())) as job:
        return evaluate_model(model, data, recipe.evaluate, rows, job.update)
