"""What teachers predict of every train row: computed once, kept in the cache, read by memory map."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, replace

import numpy as np
import torch

from manyheads.console import Reporter
from manyheads.encoder.onednn import arithmetic
from manyheads.errors import UserError
from manyheads.inference.torch_backend import TorchBackend
from manyheads.model.fingerprint import model_fingerprint
from manyheads.model.task_tokens import TaskTokens
from manyheads.storage.cache import Entry, EntryWriter, cached, entry_folder, open_entry, remove_entry
from manyheads.storage.ragged import Column, Ragged
from manyheads.tasks.task import Task
from manyheads.training.distributed import Processes
from manyheads.training.teaching.teachers import Teacher

CACHE_KIND = "teachers"
LAYOUT = "2"  # changes with what is kept


@dataclass(frozen=True)
class TeacherPredictions:
    """What one teacher predicts of a task's train rows."""

    teacher: Teacher
    # [rows, classes in the teacher's order], ragged [words, classes], or [rows]; NaN where it was not asked
    predictions: Column
    seconds: float  # that it took to predict them


@dataclass(frozen=True)
class Prediction:
    """Who predicts which rows of what."""

    teacher: Teacher
    train: TaskTokens  # of the student
    rows: np.ndarray
    tokens_per_pass: int

    def fingerprint(self) -> str:
        """Changes with the teacher's model, the texts, which of them it is asked about, and who computes."""
        texts = [column.fingerprint for column in self.train.texts]
        rows_digest = hashlib.sha256(np.ascontiguousarray(self.rows).data)
        if self.train.words is not None:
            rows_digest.update(np.ascontiguousarray(self.train.words.values).data)
        rows = rows_digest.hexdigest()
        key = [LAYOUT, arithmetic(), model_fingerprint(self.teacher.folder), self.teacher.task.name, texts, rows]
        return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]

    def read(self, reporter: Reporter, processes: Processes) -> TeacherPredictions:
        """From the cache; where it has none, or not a whole one, the main process predicts now."""
        fingerprint = self.fingerprint()
        if processes.main:
            try:
                open_entry(CACHE_KIND, fingerprint)
            except UserError:
                remove_entry(CACHE_KIND, fingerprint)  # damaged
            cached(CACHE_KIND, fingerprint, lambda writer: self._write(writer, reporter, processes.device))
        processes.wait()
        entry = Entry(entry_folder(CACHE_KIND, fingerprint))
        predictions: Column = entry.column("predictions")
        if self.train.words is not None:
            predictions = Ragged(entry.column("predictions"), self.train.words.starts)
        return TeacherPredictions(self.teacher, predictions, entry.notes["seconds"])

    def _write(self, writer: EntryWriter, reporter: Reporter, device: torch.device | str) -> None:
        began = time.monotonic()
        examples = self.train.examples
        # texts are cut into words as the student cuts them
        columns = replace(self.teacher.task.columns, words=self.train.task.columns.words)
        task = replace(self.teacher.task, columns=columns)
        backend = TorchBackend.open(self.teacher.folder, self.tokens_per_pass)
        backend.model.to(device)
        with reporter.job(f"teacher of {self.train.task.name}", len(self.rows)) as bar:
            predicted = backend.run([task], examples.take(self.rows), bar.update)[task.name]
        places, count = self.rows, len(examples)
        numbers = predicted.values if isinstance(predicted, Ragged) else predicted
        if self.train.words is not None:
            words = Ragged(np.arange(len(self.train.words.values)), self.train.words.starts)
            places, count = words[self.rows].values, len(words.values)
        if not np.isfinite(numbers).all():
            raise UserError(f"{self.teacher.folder}: this teacher predicts what is not a number.", "invalid-model")
        predictions = np.full((count, *numbers.shape[1:]), np.nan, dtype=np.float32)
        predictions[places] = numbers
        writer.append("predictions", predictions)
        writer.notes["seconds"] = time.monotonic() - began


def average(answers: list[TeacherPredictions], rows: np.ndarray, task: Task) -> np.ndarray:
    """The mean over the teachers of each row, or of each word, as the task's own predictions are."""
    predictions = []
    for answer in answers:
        chosen = answer.predictions[rows]
        in_their_order = (chosen.values if isinstance(chosen, Ragged) else chosen).astype(np.float64)
        predictions.append(task.kind.taught_by(in_their_order, answer.teacher.task, task))
    mean: np.ndarray = np.nanmean(np.stack(predictions), axis=0)
    return mean
