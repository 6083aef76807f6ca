"""A run folder, opened: its recipe, its metrics, its models; evaluate, predict."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from manyheads.config.load import load_run_recipe, named_imports
from manyheads.config.plugins import import_parts
from manyheads.config.recipe import Recipe
from manyheads.console import Reporter
from manyheads.errors import UserError, nearest
from manyheads.inference.evaluate import Evaluation, evaluate_model
from manyheads.inference.labelled_files import Files
from manyheads.inference.predict import predict_tasks
from manyheads.inference.predictor import Described, Predictor
from manyheads.inference.scores import Scores, TaskScore, nothing_to_evaluate, score_rows
from manyheads.inference.texts import FileLayout, LabelledLayout, Text
from manyheads.inference.torch_backend import TorchBackend
from manyheads.model.folder_checks import MODEL_FILE, printable
from manyheads.model.multitask import ManyHeads
from manyheads.model.saved_tasks import UnknownParts, check_metrics
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.metrics import overall
from manyheads.runs.hub import fetch_model
from manyheads.runs.lock import find_holder
from manyheads.runs.log import LOG_FILE, RunLog
from manyheads.runs.splits import SPLITS, Split, check_unchanged, read_split
from manyheads.storage.files import restore_folder
from manyheads.storage.ragged import Column
from manyheads.tasks.task import Task


class Run:
    """What a training left behind. `model` is which of its models to use: 'best', 'best-TASK' or 'best-averaged'.

    `imports` are Python files of yours with parts that the run needs: they are run. Those that the run's own recipe
    names are not, unless this process has run them already: a folder never decides which code is run.
    """

    def __init__(self, folder: str | Path, model: str = "best", imports: Iterable[str | Path] = ()) -> None:
        self.folder = Path(folder)
        self.model_name = model
        if not all((self.folder / name).is_file() for name in ("recipe.yaml", LOG_FILE)):
            reason = "not a run folder: it has no recipe.yaml and log.jsonl."
            raise UserError(f"{self.folder}: {reason}", code="not-a-run")
        for file in imports:
            import_parts(Path(file).expanduser().resolve(), "imports")

    @staticmethod
    def from_hub(name: str, revision: str | None = None, imports: Iterable[str | Path] = ()) -> Predictor:
        """The model that `manyheads publish` put on the Hugging Face hub, ready to predict; without its run's data.

        Only safetensors, JSON and text files are fetched, and nothing in them is run.
        """
        return Predictor.open(fetch_model(name, revision), imports)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, model={self.model_name!r})"

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe as it was resolved. The files that it imports are not run."""
        try:
            return load_run_recipe(self.folder / "recipe.yaml", run_imports=False)
        except UserError as fault:
            raise self._name_imports(fault) from None

    def _name_imports(self, fault: UserError) -> UserError:
        """The same fault; where the run was trained with imported files, they may be what is missing."""
        files = named_imports(self.folder / "recipe.yaml")
        if not files:
            return fault
        options = " ".join(f"--imports {file}" for file in files)
        advice = f"This run was trained with code of yours, which opening it does not run. If you trust it: {options}"
        reason = fault.reason if isinstance(fault, UnknownParts) else str(fault)
        return UserError(f"{reason}\n{printable(advice)}", code="unknown-part")

    @property
    def metrics(self) -> dict[str, Any]:
        """What metrics.json says; empty while the run is not finished."""
        file = self.folder / "metrics.json"
        if not file.is_file():
            return {}
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"{file}: damaged: {error}.", code="damaged-file") from None
        if not isinstance(content, dict):
            raise UserError(f"{file}: damaged: expected a JSON object.", code="damaged-file")
        return content

    @cached_property
    def predictor(self) -> Predictor:
        """The run's model, ready to predict; several threads may share it."""
        folder = self.folder / self.model_name
        restore_folder(folder)
        if not folder.is_dir():
            models = [path.name for path in self.folder.glob("best*") if path.is_dir()]
            if not models:
                raise UserError(f"{self.folder}: no model yet. {self._how_to_get_one()}", code="no-model-yet")
            hint = nearest(self.model_name, models)
            raise UserError(f"{self.folder}: no model '{self.model_name}'.{hint}", code="no-such-model")
        try:
            return Predictor.open(folder)
        except UserError as fault:
            if fault.code == "unknown-part":
                raise self._name_imports(fault) from None
            raise

    def _how_to_get_one(self) -> str:
        holder = find_holder(self.folder)
        if holder is None:
            return f"`manyheads resume {self.folder}` finishes the run."
        return f"It is being trained by {holder.describe()}; the first evaluation writes one."

    def log(self) -> list[dict[str, Any]]:
        """The records of log.jsonl so far; the run may still write it."""
        return RunLog(self.folder / LOG_FILE).records()

    @property
    def model(self) -> ManyHeads:
        backend = self.predictor.backend
        assert isinstance(backend, TorchBackend)
        return backend.model

    @property
    def about(self) -> dict[str, Any]:
        """Which step the model is of, and on what it was chosen."""
        return self.predictor.about

    def task(self, name: str | None) -> Task:
        return self.predictor.task(name)

    def evaluate(
        self,
        files: Files | None = None,
        split: Split | None = None,
        task: str | None = None,
        reporter: Reporter | None = None,
        **layout: Unpack[LabelledLayout],
    ) -> Scores:
        """Metrics with 95 % intervals on labelled files, or on a split of the recipe's data: dev unless told.

        `task`: one task alone. A file is measured for every task whose text and label columns it has; `columns`,
        `format` and `quoting` say how files are read, as in a recipe; `text_columns` and `label_column` what the
        columns of `task` are called there.
        """
        if files is not None and split is not None:
            raise UserError("evaluate: give files or a split, not both.", code="conflicting-options")
        if files is None and layout:
            raise UserError(f"evaluate: {', '.join(layout)}: only files have that.", code="conflicting-options")
        reporter = reporter or Reporter(quiet=True)
        if task is not None:
            self.task(task)  # an unknown one is refused before any data is read
        try:
            check_metrics(self.model.tasks.values(), self.predictor.source / MODEL_FILE)
        except UnknownParts as fault:
            raise self._name_imports(fault) from None
        if files is None:
            scores = self._evaluate_split(split or "dev", task, reporter)
        else:
            scores = self.predictor.evaluate(files, task, self._tasks_that_skip_bad_rows(), reporter, **layout)
        if set(scores.tasks) != set(self.recipe.tasks):  # a model that was extended has others too
            return scores
        settings = self.recipe.evaluate
        trained = {name: self.model.tasks[name] for name in self.recipe.tasks}
        return replace(scores, overall=overall(scores.metrics, trained, settings.overall, settings.weights))

    def _evaluate_split(self, split: Split, task: str | None, reporter: Reporter) -> Scores:
        if split not in SPLITS:
            raise UserError(f"evaluate: no split '{split}'.{nearest(split, SPLITS)}", code="unknown-split")
        data, unmeasured = read_split(self.recipe, self.model, split, task)
        if not data:
            raise nothing_to_evaluate(f"{self.folder}: {split}", unmeasured)
        check_unchanged(data, self.recipe, split, self.metrics.get("data", {}), reporter)
        rows = {name: tokens.examples.labelled_rows for name, tokens in data.items()}
        with reporter.job("evaluate", sum(map(len, rows.values()))) as job:
            predictions = predict_tasks(self.model, data, self.recipe.evaluate.tokens_per_pass, rows, job.update)
        scores: dict[str, TaskScore] = {}
        for name, tokens in data.items():
            scores[name] = score_rows(tokens.task, tokens.examples, predictions[name])
        return Scores(scores, unmeasured)

    def _tasks_that_skip_bad_rows(self) -> list[str]:
        recipe = self.recipe
        return [name for name, task in recipe.tasks.items() if (task.bad_rows or recipe.data.bad_rows) == "skip"]

    def predict(self, task: str | None, texts: Sequence[Text]) -> Described:
        """Predictions in the order of the texts: {'prediction': …} and, for classes, their probabilities."""
        return self.predictor.predict(task, texts)

    def predict_all(self, texts: Sequence[Text]) -> dict[str, Described]:
        """The same of every task that takes such texts, single or pairs, from one encoder pass where possible."""
        return self.predictor.predict_all(texts)

    def predict_file(
        self,
        task: str | None,
        file: str | Path,
        text_columns: Sequence[str] | None = None,
        **layout: Unpack[FileLayout],
    ) -> tuple[list[str], Described]:
        """Ids and predictions for every row of a file; see `Predictor.predict_file`."""
        return self.predictor.predict_file(task, file, text_columns, **layout)

    def predict_file_all(
        self, file: str | Path, text_columns: Sequence[str] | None = None, **layout: Unpack[FileLayout]
    ) -> tuple[list[str], dict[str, Described]]:
        """The same of every task that takes such texts; see `Predictor.predict_file_all`."""
        return self.predictor.predict_file_all(file, text_columns, **layout)

    def serve(self, host: str = "127.0.0.1", port: int = 8000, keys_file: str | Path | None = None) -> None:
        """Serve every head over HTTP until Ctrl-C, as `manyheads serve` does; needs manyheads[serve]."""
        from manyheads.serving.limits import Limits, ServerSettings
        from manyheads.serving.models import Source
        from manyheads.serving.server import serve

        source = Source(
            self.folder.resolve().name,
            self.folder / self.model_name,
            lambda: Run(self.folder, self.model_name).predictor,
        )
        settings = ServerSettings(host, port, Path(keys_file) if keys_file else None)
        serve([source], settings, Limits())

    def embed(self, texts: Sequence[str], normalize: bool = False, task: str | None = None) -> np.ndarray:
        """[texts, width] float32: the mean token state of each text by the trained encoder; see `Predictor.embed`."""
        return self.predictor.embed(texts, normalize, task)


def evaluate_with_progress(
    model: ManyHeads,
    data: dict[str, TaskTokens],
    recipe: Recipe,
    reporter: Reporter,
    rows: dict[str, np.ndarray] | None = None,
    fit: bool = False,
) -> tuple[Evaluation, dict[str, Column]]:
    """`evaluate_model` with a progress line over the examples of all tasks."""
    total = 0
    for name, split in data.items():
        total += int(split.examples.labelled.sum()) if rows is None else len(rows[name])
    with reporter.job("evaluate", total) as job:
        return evaluate_model(model, data, recipe.evaluate, rows, job.update, fit)
