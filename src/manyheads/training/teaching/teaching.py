"""What a student learns of its teachers (teacher annealing: BAM!, Clark et al. 2019).

    λ·loss(x, y) + (1 − λ)·T²·soft(x/T, q)

x: the student's outputs; y: the label; q: the mean of the teachers' predictions, softened by the temperature T (for
classes with one right p^(1/T), renormalised; for each class of several on its own; numbers have no temperature); λ: the
share of gold, which rises from 0 to 1 over the training. A row without a label has λ = 0. Cross-entropy is linear in
its target and squared errors are so up to what no weight changes: the gradient is that of the target λ·y + (1 − λ)·q.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import numpy as np
import torch
from torch import Tensor

from manyheads.config.distill import DistillSettings, Gold
from manyheads.config.recipe import Recipe
from manyheads.console import Reporter
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.losses import Loss
from manyheads.tasks.load import TaskData
from manyheads.training.distributed import Processes
from manyheads.training.teaching.predictions import Prediction, TeacherPredictions, average
from manyheads.training.teaching.teachers import Teacher, open_teachers, rows_asked


def gold_share(gold: Gold, step: int, steps: int) -> float:
    """λ at a step, counted from 0, of so many in all phases: annealed it is 0 at the first and 1 at the last."""
    if gold != "annealed":
        return gold
    return step / (steps - 1) if steps > 1 else 1.0


class Teaching:
    """The teachers of a run's tasks, and the losses of their students. A pure function of the step."""

    def __init__(
        self, settings: DistillSettings, predictions: dict[str, list[Prediction]], train: dict[str, TaskTokens]
    ) -> None:
        self.settings = settings
        self.predictions = predictions  # task → who predicts what; nobody yet where teachers are to come
        self.train = train  # task → its examples, of those at least
        self.steps = 1  # of the whole training; this and the next once `open` has been called
        self.answers: dict[str, list[TeacherPredictions]] = {}  # task → what its teachers predicted

    def open(self, steps: int, reporter: Reporter, processes: Processes) -> None:
        """Have all that teachers predict at hand for a training: computed now where it is not in the cache."""
        self.steps = steps
        for task, predictions in self.predictions.items():
            self.answers[task] = [prediction.read(reporter, processes) for prediction in predictions]

    def __contains__(self, task: str) -> bool:
        return task in self.predictions

    def gold_share(self, step: int) -> float:
        return gold_share(self.settings.gold, step, self.steps)

    def losses(self, loss: Loss, task: str, rows: list[int], outputs: Tensor, labels: Tensor, step: int) -> Tensor:
        """[examples], or [words], what a task's student pays for some train rows at a step."""
        labelled = self._labelled(task, rows, outputs.device)
        no_label = ~labelled.view(-1, *[1] * (labels.ndim - 1))
        labels = labels.masked_fill(no_label, 0)  # any label will do where it counts for nothing
        share = labelled.to(outputs) * self.gold_share(step)
        if not self.answers or bool((share == 1).all()):  # steps may be timed before the teachers are asked
            return loss(outputs, labels)
        temperature = self.settings.temperature if self.train[task].task.kind.has_classes else 1.0
        taught = temperature**2 * loss.soft(outputs / temperature, self.targets(task, rows).to(outputs))
        if bool((share == 0).all()):
            return taught
        return share * loss(outputs, labels) + (1 - share) * taught

    def targets(self, task: str, rows: list[int]) -> Tensor:
        """What the teachers predict of some train rows, as the task's loss reads it."""
        student = self.train[task].task
        mean = average(self.answers[task], np.array(rows, dtype=np.int64), student)
        softened = student.kind.soften(mean, self.settings.temperature)
        return torch.from_numpy(np.ascontiguousarray(student.kind.targets(softened, student)))

    def _labelled(self, task: str, rows: list[int], device: torch.device) -> Tensor:
        data = self.train[task]
        labelled = data.examples.labelled[rows]
        if data.words is not None:
            labelled = np.repeat(labelled, data.words[np.array(rows, dtype=np.int64)].lengths)
        return torch.from_numpy(labelled).to(device)

    @property
    def teachers(self) -> list[Teacher]:
        """Each model once, though it may teach several tasks."""
        by_folder: dict[str, Teacher] = {}
        for predictions in self.predictions.values():
            for prediction in predictions:
                by_folder[str(prediction.teacher.folder.resolve())] = prediction.teacher
        return list(by_folder.values())

    @property
    def seconds(self) -> float:
        """What predicting took, when it was done."""
        seconds = 0.0
        for answers in self.answers.values():
            for answer in answers:
                seconds += answer.seconds
        return seconds

    def fingerprints(self) -> dict[str, str]:
        """'TASK teachers' → a hash that changes with any of them, and with the rows that they predict."""
        fingerprints = {}
        for task, predictions in self.predictions.items():
            words = " ".join(prediction.fingerprint() for prediction in predictions)
            fingerprints[f"{task} teachers"] = hashlib.sha256(words.encode()).hexdigest()[:32]
        return fingerprints

    def describe(self) -> str:
        counts = []
        for task, predictions in self.predictions.items():
            counts.append(f"{task} by {len(predictions)}")
        gold = "rises from 0 to 1" if self.settings.gold == "annealed" else f"is {self.settings.gold:g}"
        temperature = f"temperature {self.settings.temperature:g}"
        return f"teachers: {', '.join(counts)}; the share of gold labels {gold}, {temperature}"


def build_teaching(
    recipe: Recipe, loaded: dict[str, TaskData], train: dict[str, TaskTokens], to_come: Collection[str] = ()
) -> Teaching | None:
    """The teaching of a recipe, checked but not yet opened; None where no task has teachers, or gets them later."""
    active = recipe.training.active_tasks or list(loaded)
    teachers = open_teachers(recipe, loaded, to_come)
    predictions: dict[str, list[Prediction]] = {}
    for task in active:
        if task in to_come:
            predictions[task] = []
        if task not in teachers:
            continue
        predictions[task] = []
        for teacher in teachers[task]:
            rows = rows_asked(teacher, loaded[task])
            predictions[task].append(Prediction(teacher, train[task], rows, recipe.evaluate.tokens_per_pass))
    return Teaching(recipe.distill, predictions, train) if predictions else None
