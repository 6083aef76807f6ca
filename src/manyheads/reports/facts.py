"""What a report is made from: a run folder's recipe, log, metrics, predictions on dev, and dev texts."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.config.recipe import Recipe
from manyheads.console import BASELINES
from manyheads.encoder import Encoder, load_encoder
from manyheads.errors import UserError
from manyheads.inference.prediction_files import read_dev_predictions
from manyheads.parts.metrics import primary
from manyheads.reports.answers import AnswersFound
from manyheads.reports.choices import Choices
from manyheads.reports.dev_texts import add_texts
from manyheads.reports.sentence_space import SentenceSpace, compare_spaces
from manyheads.reports.tagged_words import TaggedWords
from manyheads.reports.task_predictions import TaskPredictions
from manyheads.runs.run import Run
from manyheads.storage.ragged import Column, Ragged
from manyheads.tasks.task import Task
from manyheads.tokens.tokenizer import Tokenizer
from manyheads.training.warm_start import encoder_source

Records = list[dict[str, Any]]
Points = list[tuple[float, float]]
FINISHED_RUN_FILES = ("recipe.yaml", "log.jsonl", "metrics.json", "dev.safetensors")
NOT_COMPARED = {"name", "seed", "output", "description", "report", "trackers"}  # of two runs that differ in the seed


class RunFacts:
    """A run folder as a report reads it. The run may be unfinished."""

    def __init__(self, folder: Path) -> None:
        self.run = Run(folder)
        self.folder = folder
        self.label = self.run.recipe.name  # what a page with several runs calls it
        self.notes: list[str] = []  # what the report cannot show, and why

    @property
    def name(self) -> str:
        return self.run.recipe.name

    # --- the log -------------------------------------------------------------------------------------------------

    @cached_property
    def log(self) -> Records:
        return self.run.log()

    def events(self, event: str) -> Records:
        return [record for record in self.log if record["event"] == event]

    def evaluations(self, task_name: str) -> Records:
        """The evaluations that measured a task."""
        return [record for record in self.events("evaluate") if task_name in record["metrics"]]

    def points(self, event: str, value_name: str, task_name: str) -> Points:
        """(step, value) of a value that the log has for each task, such as the loss."""
        points: Points = []
        for record in self.events(event):
            values = record.get(value_name, {})
            if task_name in values:
                points.append((record["step"], values[task_name]))
        return points

    @cached_property
    def start(self) -> dict[str, Any]:
        """The record of the start; empty where the log has none."""
        return next(iter(self.events("start")), {})

    @cached_property
    def steps_trained(self) -> int:
        return max((record["step"] for record in self.log), default=0)

    @cached_property
    def steps_planned(self) -> int:
        return int(self.start.get("steps", self.steps_trained))

    @cached_property
    def batch_sizes(self) -> dict[str, int]:
        """Examples in a batch of each task."""
        recipe = self.run.recipe
        logged = self.start.get("batch_sizes", {})
        sizes = {}
        for task_name, settings in recipe.tasks.items():
            sizes[task_name] = logged.get(task_name, settings.batch_size or recipe.training.batch_size)
        return sizes

    # --- the result ----------------------------------------------------------------------------------------------

    @cached_property
    def metrics(self) -> dict[str, Any]:
        return self.run.metrics

    @property
    def finished(self) -> bool:
        return bool(self.metrics)

    def baselines(self, task_name: str) -> dict[str, dict[str, float | None]]:
        """'frozen probe' and 'majority' → the task's metrics on dev, of those baselines that the run has."""
        baselines = {}
        for key, title in BASELINES.items():
            metrics = self.metrics.get(key, {}).get("metrics", {})
            if task_name in metrics:
                baselines[title] = metrics[task_name]
        return baselines

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """The tasks as the run resolved them."""
        file = self.folder / "tasks.json"
        if not file.is_file():
            return {}
        try:
            saved = json.loads(file.read_text(encoding="utf-8"))
            return {task["name"]: Task.from_json(task) for task in saved}
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{file}: damaged: {error}.", code="damaged-file") from None

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The encoder's tokenizer; None where the run keeps no model."""
        if not (self.folder / "best").is_dir():
            return None
        return self.run.model.tokenizer

    @cached_property
    def first_encoder(self) -> Encoder | None:
        """The encoder that the run started from; None where it, or the trained model, is gone."""
        if not (self.folder / "best").is_dir():
            return None
        try:
            _ = self.run.model
            return load_encoder(encoder_source(self.run.recipe, None)).encoder
        except UserError as fault:
            self.notes.append(f"Embeddings are not shown: {fault}")
            return None

    @cached_property
    def sentence_spaces(self) -> dict[str, SentenceSpace]:
        """Of every task with enough dev texts; empty where an encoder is gone."""
        spaces: dict[str, SentenceSpace] = {}
        if self.first_encoder is None:
            return spaces
        for task_name, predictions in self.predictions.items():
            space = compare_spaces(self.run.model, self.first_encoder, predictions.texts)
            if space is not None:
                spaces[task_name] = space
        return spaces

    def primary_metric(self, task_name: str) -> str | None:
        if task_name in self.tasks:
            return primary(self.tasks[task_name])
        evaluations = self.events("evaluate")
        if not evaluations:
            return None
        return next(iter(evaluations[-1]["metrics"].get(task_name, {})), None)

    @cached_property
    def tensors(self) -> dict[str, Column]:
        """'TASK.predictions' and 'TASK.labels' on dev; empty while the run is unfinished."""
        file = self.folder / "dev.safetensors"
        if not file.is_file() or not self.finished:  # metrics.json is the last file that a run writes
            return {}
        try:
            return read_dev_predictions(file)
        except Exception as error:  # safetensors raises its own exceptions for damaged files
            message = f"{file}: damaged: {error}. `manyheads evaluate` can measure the model again."
            raise UserError(message, code="damaged-file") from None

    @cached_property
    def measured_tasks(self) -> dict[str, tuple[Task, Column, Column]]:
        """Every task with labelled dev examples, of whatever kind, its predictions and labels."""
        measured: dict[str, tuple[Task, Column, Column]] = {}
        for task_name, task in self.tasks.items():
            labels, predictions = (self.tensors.get(f"{task_name}.{name}") for name in ("labels", "predictions"))
            if labels is not None and predictions is not None and len(labels):
                measured[task_name] = (task, predictions, labels)
        return measured

    @cached_property
    def predictions(self) -> dict[str, TaskPredictions]:
        """Of every task with labelled dev examples; empty while the run is unfinished."""
        predictions = {}
        for task_name, task in self.tasks.items():
            labels = self.tensors.get(f"{task_name}.labels", np.empty(0))
            task_predictions = self.tensors.get(f"{task_name}.predictions")
            if task.kind.searches:
                self.notes.append(f"Single predictions of {task_name} are not shown: it is {task.kind.called}.")
                continue
            if (
                task.kind.per_token
                or task.kind.per_candidate
                or (isinstance(labels, Ragged) and task.kind.word_columns)
            ):
                continue  # see `tagged_words`, `choices` and `answers`
            if isinstance(labels, Ragged):
                self.notes.append(f"Single predictions of {task_name} are not shown: it has labels per word.")
            elif len(labels) and isinstance(task_predictions, np.ndarray):
                predictions[task_name] = TaskPredictions(task, task_predictions, labels)
        self.notes += add_texts(predictions, [self.folder], self.run.recipe)
        return predictions

    @cached_property
    def tagged_words(self) -> dict[str, TaggedWords]:
        """The same of every task whose words are tagged."""
        tagged: dict[str, TaggedWords] = {}
        for task_name, task in self.tasks.items():
            labels, predictions = (self.tensors.get(f"{task_name}.{name}") for name in ("labels", "predictions"))
            if task.kind.word_columns and isinstance(labels, Ragged) and isinstance(predictions, Ragged):
                tagged[task_name] = TaggedWords(task, predictions, labels)
        self.notes += add_texts(tagged, [self.folder], self.run.recipe)
        return tagged

    @cached_property
    def choices(self) -> dict[str, Choices]:
        """The same of every task that chooses among candidates."""
        choices: dict[str, Choices] = {}
        for task_name, task in self.tasks.items():
            labels, predictions = (self.tensors.get(f"{task_name}.{name}") for name in ("labels", "predictions"))
            if task.kind.per_candidate and isinstance(labels, np.ndarray) and isinstance(predictions, Ragged):
                choices[task_name] = Choices(task, predictions, labels)
        self.notes += add_texts(choices, [self.folder], self.run.recipe)
        return choices

    @cached_property
    def answers(self) -> dict[str, AnswersFound]:
        """The same of every task that finds answers in a text."""
        answers: dict[str, AnswersFound] = {}
        for task_name, task in self.tasks.items():
            labels, predictions = (self.tensors.get(f"{task_name}.{name}") for name in ("labels", "predictions"))
            if task.kind.per_token and isinstance(labels, Ragged) and isinstance(predictions, Ragged):
                answers[task_name] = AnswersFound(task, predictions, labels)
        self.notes += add_texts(answers, [self.folder], self.run.recipe)
        return answers

    # --- other runs ----------------------------------------------------------------------------------------------

    @cached_property
    def sibling_runs(self) -> list[RunFacts]:
        """Finished runs in the same parent folder. A note names those that cannot be read."""
        siblings = []
        run_folder = self.folder.resolve()
        for folder in sorted(run_folder.parent.iterdir()):
            if folder == run_folder or not _has_files(folder, FINISHED_RUN_FILES):
                continue
            try:
                sibling = RunFacts(folder)
                _ = sibling.tasks, sibling.metrics, sibling.tensors  # read now: a damaged file shows here
            except (UserError, ValueError) as fault:
                self.notes.append(f"The run {folder.name} in the same folder cannot be read: {fault}")
                continue
            siblings.append(sibling)
        return siblings

    def predictions_of_seeds(self, task_name: str) -> list[np.ndarray]:
        """A task's predictions by this run and by sibling runs whose recipes differ only in the seed."""
        recipe = self.run.recipe
        task = self.predictions[task_name]
        predictions = [task.predictions]
        for sibling in self.sibling_runs:
            sibling_recipe = sibling.run.recipe
            if sibling_recipe.seed == recipe.seed or _settings(sibling_recipe) != _settings(recipe):
                continue
            sibling_labels = sibling.tensors.get(f"{task_name}.labels", np.empty(0))
            sibling_predictions = sibling.tensors.get(f"{task_name}.predictions")
            if not isinstance(sibling_labels, np.ndarray) or not isinstance(sibling_predictions, np.ndarray):
                continue
            if np.array_equal(sibling_labels, task.labels):
                predictions.append(sibling_predictions)
        return predictions


def _has_files(folder: Path, names: tuple[str, ...]) -> bool:
    return all((folder / name).is_file() for name in names)


def _settings(recipe: Recipe) -> dict[str, Any]:
    return recipe.model_dump(mode="json", exclude=NOT_COMPARED)
