"""A trained model that predicts. Importing this file imports neither torch nor transformers: the backend brings them.

    predictor = Predictor.open("runs/reviews/best")
    predictor.predict("sentiment", ["A warm and funny film."])

A model folder is all it takes, wherever it was copied. Several threads may predict with one predictor at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, Unpack

import numpy as np

from manyheads.config.plugins import import_parts
from manyheads.config.task import Source
from manyheads.console import Reporter
from manyheads.data.choices import join_candidates
from manyheads.data.dataset import Dataset
from manyheads.data.table import text_columns as data_text_columns
from manyheads.errors import UserError, nearest
from manyheads.inference.graph_session import Runtime
from manyheads.inference.labelled_files import Files, read_labelled_files
from manyheads.inference.onnx_folder import is_onnx_folder
from manyheads.inference.prediction_files import describe_rows
from manyheads.inference.prepared import ServingBackend
from manyheads.inference.scores import Scores, TaskScore, nothing_to_evaluate, score_rows
from manyheads.inference.texts import (
    FileLayout,
    LabelledLayout,
    Text,
    choice_texts,
    dataset_of_file,
    dataset_of_texts,
    first_chunk,
    id_column_of_file,
    source_of_file,
    takes_texts,
    text_columns_of_file,
    text_columns_of_task,
)
from manyheads.model.folder_checks import MODEL_FILE, guarded, refused
from manyheads.model.saved_tasks import check_metrics
from manyheads.storage.ragged import Column
from manyheads.tasks.task import Task

TOKENS_PER_PASS = 4096  # memory of a pass; a matter of the machine that predicts, so it is not kept with the model
SMALLEST_LENGTH = 1e-12  # of a vector that is divided by its length
SILENT_SECONDS = 2.0  # of a prediction, before there is a progress bar
CHOICE_TRIAL = ("a", join_candidates("", ["a", "b"]))
Progress = Callable[[int], None]
Described = list[dict[str, Any]]  # {'prediction': …} of each example and, for classes, their probabilities

_opening = Lock()  # building a model draws from torch's generator and may register parts: one at a time


class Backend(ServingBackend, Protocol):
    """Runs a model. It changes nothing that another thread sees."""

    def run(self, tasks: list[Task], examples: Dataset, progress: Progress) -> dict[str, Column]:
        """The predictions of tasks that read these texts, by name, example by example. `progress` is told how many
        there are so far."""
        ...

    def embed(self, examples: Dataset, task: str | None = None) -> np.ndarray:
        """[texts, width] float32: where the encoder puts single texts, or a task that searches."""
        ...


class Predictor:
    """The tasks of a model, and their predictions for new texts."""

    def __init__(self, backend: Backend, source: str | Path) -> None:
        self.backend = backend
        self.source = Path(source)  # for messages

    @classmethod
    def open(
        cls,
        folder: str | Path,
        imports: Iterable[str | Path] = (),
        tokens_per_pass: int = TOKENS_PER_PASS,
        runtime: Runtime | None = None,
    ) -> Predictor:
        """Open a model folder, or an exported one. `imports` are Python files of yours with parts that the model needs:
        they are run. `runtime` runs an exported one: ONNX Runtime unless told.

        Nothing inside the folder is ever run, and nothing is written.
        """
        folder = Path(folder)
        with _opening:
            for file in imports:
                import_parts(Path(file).expanduser().resolve(), "imports")
            predictor = cls(_open_backend(folder, tokens_per_pass, runtime), folder)
        predictor._try_out()
        return predictor

    def __repr__(self) -> str:
        return f"Predictor({str(self.source)!r})"

    @property
    def tasks(self) -> dict[str, Task]:
        return self.backend.tasks

    @property
    def about(self) -> dict[str, Any]:
        """Which step the model is of, and on what it was chosen."""
        return self.backend.about

    def task(self, name: str | None) -> Task:
        """The task of that name; without a name the only one."""
        if name is None and len(self.tasks) == 1:
            return next(iter(self.tasks.values()))
        if name is None:
            reason = f"say which task, or predict all of them (--all).{nearest('', self.tasks)}"
            raise UserError(f"{self.source}: {reason}", code="unknown-task")
        if name not in self.tasks:
            raise UserError(f"{self.source}: no task '{name}'.{nearest(name, self.tasks)}", code="unknown-task")
        return self.tasks[name]

    def predict(self, task: str | None, texts: Sequence[Text | list[str]]) -> Described:
        """Predictions in the order of the texts: {'prediction': …} and, for classes, their probabilities.

        Where words are tagged a text may be a list of its words; else it is cut as the task's `words` say. A multiple
        choice takes (question, [candidates]), or (context, question, [candidates]).
        """
        chosen = self.task(task)
        reader = f"task '{chosen.name}'"
        if chosen.kind.per_candidate:
            return self.predict_dataset([chosen], dataset_of_texts(choice_texts(texts, chosen), 2, reader))[chosen.name]
        examples = dataset_of_texts(texts, len(chosen.columns.text), reader, words=chosen.kind.word_columns)
        return self.predict_dataset([chosen], examples)[chosen.name]

    def predict_all(self, texts: Sequence[Text]) -> dict[str, Described]:
        """The same of every task that takes such texts, single or pairs, from one encoder pass where possible."""
        text_count = 2 if texts and not isinstance(texts[0], str) else 1
        chosen = self._tasks_for(text_count)
        return self.predict_dataset(chosen, dataset_of_texts(texts, text_count, f"task '{chosen[0].name}'"))

    def _tasks_for(self, text_count: int) -> list[Task]:
        chosen = self._tasks_that_take(text_count)
        if not chosen:
            kind_of_text = "pairs" if text_count == 2 else "single texts"
            raise UserError(f"{self.source}: no task takes {kind_of_text}.", code="unknown-task")
        return chosen

    def _tasks_that_take(self, text_count: int) -> list[Task]:
        return [task for task in self.tasks.values() if takes_texts(task, text_count)]

    def predict_file(
        self,
        task: str | None,
        file: str | Path,
        text_columns: Sequence[str] | None = None,
        reporter: Reporter | None = None,
        **layout: Unpack[FileLayout],
    ) -> tuple[list[str], Described]:
        """Ids and predictions for every row of a csv, tsv, jsonl or parquet file, or every line of a txt file.

        `text_columns`: which columns hold the texts, two for pairs; by default the task's own. `columns`, `format` and
        `quoting` say how the file is read, as in a recipe.
        """
        chosen, source = self.task(task), source_of_file(file, layout)
        columns = text_columns_of_task(source, chosen, text_columns)
        own = chosen.columns
        examples = dataset_of_file(source, columns, own.id, own.words, own.choices, own.answers)
        return examples.ids.to_pylist(), self.predict_dataset([chosen], examples, reporter)[chosen.name]

    def predict_file_all(
        self,
        file: str | Path,
        text_columns: Sequence[str] | None = None,
        reporter: Reporter | None = None,
        **layout: Unpack[FileLayout],
    ) -> tuple[list[str], dict[str, Described]]:
        """The same of every task that takes such texts: single ones, or pairs where there are two columns.

        By default the columns are those of the first task that finds its own, or those with the usual names.
        """
        source = source_of_file(file, layout)
        choosing = self._tasks_with_candidates(source)
        if choosing and not text_columns:
            return self._predict_choices(source, choosing, reporter)
        columns = text_columns_of_file(source, self.tasks.values(), text_columns)
        chosen = self._tasks_for(len(columns))
        words = next((task.columns.words for task in chosen if task.columns.words), None)
        answers = next((task.columns.answers for task in chosen if task.columns.answers), None)
        examples = dataset_of_file(source, columns, id_column_of_file(source, chosen), words, answers=answers)
        return examples.ids.to_pylist(), self.predict_dataset(chosen, examples, reporter)

    def _tasks_with_candidates(self, source: Source) -> list[Task]:
        """Those whose question and candidates a file has."""
        present = set(first_chunk(source).columns)
        choosing: list[Task] = []
        for task in self.tasks.values():
            if task.kind.per_candidate and set(data_text_columns(task.columns)) <= present:
                choosing.append(task)
        return choosing

    def _predict_choices(
        self, source: Source, tasks: list[Task], reporter: Reporter | None
    ) -> tuple[list[str], dict[str, Described]]:
        """Of every task that chooses among the candidates of a file's rows."""
        described: dict[str, Described] = {}
        ids: list[str] = []
        for task in tasks:
            own = task.columns
            examples = dataset_of_file(source, own.text, own.id, own.words, own.choices)
            ids = examples.ids.to_pylist()
            described |= self.predict_dataset([task], examples, reporter)
        return ids, described

    def embed(self, texts: Sequence[str], normalize: bool = False, task: str | None = None) -> np.ndarray:
        """[texts, width] float32: the mean token state of each text by the trained encoder, in the order of the texts.

        `normalize` scales each vector v to length 1, v/‖v‖, so that inner products are cosines. With a `task`, one that
        searches, its own vectors: by its pooling and head, of length 1.
        """
        if task is not None:
            task = self.search_task(task)
        embeddings = self.backend.embed(dataset_of_texts(texts, 1, "embed"), task)
        return unit_vectors(embeddings) if normalize else embeddings

    def search_task(self, name: str | None) -> str | None:
        """The task whose vectors are meant: without a name the only one that searches, or none where there is none."""
        searching = [task.name for task in self.tasks.values() if task.kind.searches]
        if name is None and len(searching) > 1:
            raise UserError(f"{self.source}: say which task.{nearest('', searching)}", code="unknown-task")
        if name is None:
            return searching[0] if searching else None
        if not self.task(name).kind.searches:
            reason = f"task '{name}' is {self.tasks[name].kind.called}, which has no vectors of its own."
            raise UserError(f"{self.source}: {reason}", code="unknown-task")
        return name

    def evaluate(
        self,
        files: Files,
        task: str | None = None,
        skip_bad_rows: Collection[str] = (),
        reporter: Reporter | None = None,
        **layout: Unpack[LabelledLayout],
    ) -> Scores:
        """Metrics on labelled files: of one task, or of every task whose text and label columns a file has.

        Rows that cannot be used are an error, but for tasks that `skip_bad_rows` names. `columns`, `format` and
        `quoting` say how the files are read, as in a recipe; `text_columns` and `label_column` what the columns of
        `task` are called there.
        """
        tasks = self.tasks
        if task is not None:
            tasks = {task: self.task(task)}
        check_metrics(tasks.values(), self.source / MODEL_FILE)
        examples, unmeasured = read_labelled_files(tasks, files, skip_bad_rows, layout)
        if not examples:
            raise nothing_to_evaluate(str(self.source), unmeasured)
        scores: dict[str, TaskScore] = {}
        for names in _with_same_rows(tasks, examples):
            rows = examples[names[0]]
            predictions = self._run([tasks[name] for name in names], rows, reporter, "evaluate")
            for name in names:
                labelled = predictions[name][examples[name].labelled_rows]
                scores[name] = score_rows(tasks[name], examples[name], labelled)
        return Scores({name: scores[name] for name in tasks if name in scores}, unmeasured)

    def predict_dataset(
        self, tasks: list[Task], examples: Dataset, reporter: Reporter | None = None
    ) -> dict[str, Described]:
        """Predictions of tasks that read the same texts, in the user's words."""
        described: dict[str, Described] = {task.name: [] for task in tasks}
        if len(examples):
            predictions = self._run(tasks, examples, reporter, "predict")
            for task in tasks:
                described[task.name] = describe_rows(task, predictions[task.name], examples)
        return described

    def _run(self, tasks: list[Task], examples: Dataset, reporter: Reporter | None, name: str) -> dict[str, Column]:
        reporter = reporter or Reporter(quiet=True)
        for task in tasks:
            if task.both_orders:
                reporter.say(f"{task.name}: the mean over both orders of a pair, at up to twice the tokens")
        with reporter.job(name, len(tasks) * len(examples), delay=SILENT_SECONDS) as job:
            return self.backend.run(tasks, examples, job.update)

    def _try_out(self) -> None:
        """A model that cannot predict for a letter is refused when it is opened, not in the middle of its work."""
        trials: dict[int, Text] = {1: "a", 2: ("a", "a")}
        for text_count, text in trials.items():
            tasks = self._tasks_that_take(text_count)
            if not tasks:
                continue
            with guarded(self.source / MODEL_FILE):
                described = self.predict_dataset(tasks, dataset_of_texts([text], text_count, "a task"))
            self._check_finite(described)
        choices = [task for task in self.tasks.values() if task.kind.per_candidate]
        for task in choices:
            with guarded(self.source / MODEL_FILE):
                described = self.predict_dataset([task], dataset_of_texts([CHOICE_TRIAL], 2, "a task"))
            self._check_finite(described)

    def _check_finite(self, described: Mapping[str, Described]) -> None:
        for name, predictions in described.items():
            if not _is_finite(predictions):
                raise refused(self.source, f"task '{name}' predicts what is not a number.")


def unit_vectors(embeddings: np.ndarray) -> np.ndarray:
    """v/‖v‖"""
    lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
    scaled: np.ndarray = embeddings / np.maximum(lengths, SMALLEST_LENGTH)
    return scaled


def _open_backend(folder: Path, tokens_per_pass: int, runtime: Runtime | None) -> Backend:
    """By what the folder holds: an exported graph, or weights."""
    if is_onnx_folder(folder):
        from manyheads.inference.onnx_backend import OnnxBackend

        return OnnxBackend.open(folder, tokens_per_pass, runtime or "onnxruntime")
    if runtime is not None:
        reason = f"PyTorch runs a model folder; '{runtime}' runs what `manyheads export` wrote."
        raise UserError(f"{folder}: {reason}", code="conflicting-options")
    from manyheads.inference.torch_backend import TorchBackend

    return TorchBackend.open(folder, tokens_per_pass)


def _with_same_rows(tasks: Mapping[str, Task], examples: Mapping[str, Dataset]) -> list[list[str]]:
    """Tasks that read the same rows of the same files can share an encoder pass; one with a label per word cannot,
    since the words of its rows are checked against its own labels; nor can a search, which has wrong answers beside."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for name, rows in examples.items():
        task, raw = tasks[name], rows.raw
        alone = name if task.kind.per_word or task.kind.searches else None
        key = (task.columns.text, raw.sources, raw.files.tobytes(), raw.lines.tobytes(), alone)
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def _is_finite(predictions: Described) -> bool:
    for prediction in predictions:
        probabilities = prediction.get("probabilities", {}).values()
        for number in (prediction["prediction"], prediction.get("probability"), *probabilities):
            if isinstance(number, float) and not math.isfinite(number):
                return False
    return True
