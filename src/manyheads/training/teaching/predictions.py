"""What teachers predict of every train row: computed once, kept in the cache, read by memory map."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass

import numpy as np
import torch

from manyheads.console import Reporter
from manyheads.errors import UserError
from manyheads.inference.torch_backend import TorchBackend
from manyheads.model.fingerprint import model_fingerprint
from manyheads.model.task_tokens import TaskTokens
from manyheads.storage.cache import Entry, EntryWriter, cached, entry_folder, open_entry, remove_entry
from manyheads.tasks.task import Task
from manyheads.training.distributed import Processes
from manyheads.training.teaching.teachers import Teacher

CACHE_KIND = "teachers"
LAYOUT = "1"  # changes with what is kept


@dataclass(frozen=True)
class TeacherPredictions:
    """What one teacher predicts of a task's train rows."""

    teacher: Teacher
    predictions: np.ndarray  # [rows, classes in the teacher's order] or [rows]; NaN where it was not asked
    seconds: float  # that it took to predict them


@dataclass(frozen=True)
class Prediction:
    """Who predicts which rows of what."""

    teacher: Teacher
    train: TaskTokens  # of the student
    rows: np.ndarray
    tokens_per_pass: int

    def fingerprint(self) -> str:
        """Changes with the teacher's model, the texts, and which of them it is asked about."""
        texts = [column.fingerprint for column in self.train.texts]
        rows = hashlib.sha256(np.ascontiguousarray(self.rows).data).hexdigest()
        key = [LAYOUT, model_fingerprint(self.teacher.folder), self.teacher.task.name, texts, rows]
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
        return TeacherPredictions(self.teacher, entry.column("predictions"), entry.notes["seconds"])

    def _write(self, writer: EntryWriter, reporter: Reporter, device: torch.device | str) -> None:
        began = time.monotonic()
        task, examples = self.teacher.task, self.train.examples
        backend = TorchBackend.open(self.teacher.folder, self.tokens_per_pass)
        backend.model.to(device)
        with reporter.job(f"teacher of {self.train.task.name}", len(self.rows)) as bar:
            predicted = backend.run([task], examples.take(self.rows), bar.update)[task.name]
        assert isinstance(predicted, np.ndarray)  # one prediction per example; others are refused before
        if not np.isfinite(predicted).all():
            raise UserError(f"{self.teacher.folder}: this teacher predicts what is not a number.", "invalid-model")
        predictions = np.full((len(examples), *predicted.shape[1:]), np.nan, dtype=np.float32)
        predictions[self.rows] = predicted
        writer.append("predictions", predictions)
        writer.notes["seconds"] = time.monotonic() - began


def average(answers: list[TeacherPredictions], rows: np.ndarray, task: Task) -> np.ndarray:
    """The mean over the teachers of each row, as the task's own predictions are: [rows, classes] or [rows], float64."""
    predictions = []
    for answer in answers:
        in_their_order = answer.predictions[rows].astype(np.float64)
        predictions.append(task.kind.taught_by(in_their_order, answer.teacher.task, task))
    mean: np.ndarray = np.nanmean(np.stack(predictions), axis=0)
    return mean
