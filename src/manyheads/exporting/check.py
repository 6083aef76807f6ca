"""What an exported model does beside the original, before anybody uses it.

**float32** must predict the same to 1e-4 of a probability, or of a value's unit. **int8** is measured: each task's
primary metric before and after, how many predictions flip, how many flip between a pass of their own and one that they
share, and its speed beside the same graph's original.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from manyheads.console import Reporter
from manyheads.data.dataset import Dataset
from manyheads.errors import UserError
from manyheads.inference.onnx_backend import OnnxBackend
from manyheads.inference.predictor import Backend
from manyheads.inference.texts import dataset_of_texts
from manyheads.inference.torch_backend import TorchBackend
from manyheads.parts.metrics.scoring import primary, score, worse_by
from manyheads.tasks.task import Task

LARGEST_DIFFERENCE = 1e-4  # of float32: rounding in another order
ALONE = 100  # examples that are also predicted in a pass of their own
TIMED = 200  # examples that speed is measured on
TURNS = 3
TRIAL_TEXTS = ("a", "It was not bad at all, but rather long.", "What is the best way to learn how to swim? " * 4)


@dataclass(frozen=True)
class Measured:
    """One task, exported, beside the original."""

    metric: str
    original: float | None
    exported: float | None
    lost: float  # how much worse the exported one is; 0 where it is not
    examples: int
    flipped: float | None  # share of predictions that are another class; None where they are numbers
    flipped_alone: float | None  # the same between a pass of their own and a shared one
    moved: float  # mean |difference| of probabilities, or of values in units of the labels' deviation
    moved_alone: float
    speed: float  # examples a second ÷ the original's with torch

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def to_line(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "original": self.original,
            "exported": self.exported,
            "flipped": _percent(self.flipped),
            "alone ≠ in a batch": _percent(self.flipped_alone),
            "mean |Δ|": f"{self.moved:.1e}",
            "times as fast": f"{self.speed:.1f}",
            "rows": self.examples,
        }


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def check_same(original: TorchBackend, exported: OnnxBackend, examples: dict[str, Dataset]) -> None:
    """Stop unless a float32 graph predicts what the model does."""
    for task in original.tasks.values():
        rows = examples.get(task.name)
        if rows is None:
            texts: list[Any] = [text if not task.pair else (text, TRIAL_TEXTS[1]) for text in TRIAL_TEXTS]
            rows = dataset_of_texts(texts, len(task.columns.text), f"task '{task.name}'")
        rows = some_rows(rows, ALONE)
        ours, theirs = predict(original, task, rows), predict(exported, task, rows)
        largest = float(np.abs(ours - theirs).max()) / task.unit
        if not largest <= LARGEST_DIFFERENCE:  # also where it is not a number
            reason = f"task '{task.name}': the graph's predictions differ from the model's by {largest:.2g}"
            raise UserError(f"export: {reason}; nothing was written. Please report this.", code="export-differs")


def measure_precisions(
    original: TorchBackend, exported: OnnxBackend, examples: dict[str, Dataset], reporter: Reporter
) -> dict[str, Measured]:
    measured: dict[str, Measured] = {}
    total = sum(map(len, examples.values()))
    with reporter.job("check", total) as job:
        completed = 0
        for name, rows in examples.items():
            measured[name] = _measure(original.tasks[name], original, exported, rows)
            completed += len(rows)
            job.update(completed)
    return measured


def _measure(task: Task, original: TorchBackend, exported: OnnxBackend, rows: Dataset) -> Measured:
    assert rows.labels is not None
    ours, theirs = predict(original, task, rows), predict(exported, task, rows)
    before, after = score(task, ours, rows.labels), score(task, theirs, rows.labels)
    metric = primary(task)
    few = some_rows(rows, ALONE)
    together = predict(exported, task, few)
    alone = np.concatenate([predict(exported, task, few.take(np.array([row]))) for row in range(len(few))])
    return Measured(
        metric=metric,
        original=before[metric],
        exported=after[metric],
        lost=worse_by(task, after[metric], before[metric]),
        examples=len(rows),
        flipped=_flipped(task, ours, theirs),
        flipped_alone=_flipped(task, together, alone),
        moved=float(np.abs(ours - theirs).mean()) / task.unit,
        moved_alone=float(np.abs(together - alone).mean()) / task.unit,
        speed=_speed(task, original, exported, some_rows(rows, TIMED)),
    )


def predict(backend: Backend, task: Task, rows: Dataset) -> np.ndarray:
    predictions = backend.run([task], rows, lambda completed: None)[task.name]
    assert isinstance(predictions, np.ndarray)  # kinds with a prediction per word are not exported
    return predictions


def some_rows(rows: Dataset, at_most: int) -> Dataset:
    return rows.take(np.linspace(0, len(rows) - 1, min(at_most, len(rows))).astype(int))


def _flipped(task: Task, ours: np.ndarray, theirs: np.ndarray) -> float | None:
    """The share of examples of which another class is predicted, or another set of classes."""
    if not task.kind.has_classes:
        return None
    differ = task.kind.decode(ours, task) != task.kind.decode(theirs, task)
    return float(differ.reshape(len(ours), -1).any(axis=1).mean())


def _speed(task: Task, original: TorchBackend, exported: OnnxBackend, rows: Dataset) -> float:
    """The median over turns of the original's seconds ÷ the exported one's."""
    ratios: list[float] = []
    for _ in range(TURNS):
        seconds: list[float] = []
        for backend in (original, exported):
            began = time.perf_counter()
            predict(backend, task, rows)
            seconds.append(time.perf_counter() - began)
        ratios.append(seconds[0] / seconds[1])
    return float(np.median(ratios))


def _shown(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def losing_tasks(measured: dict[str, Measured], most_lost: float) -> list[str]:
    """Those whose primary metric falls by more than it may."""
    return [name for name, values in measured.items() if values.lost > most_lost]


def loses_too_much(measured: dict[str, Measured], most_lost: float, layers: str | None) -> UserError:
    """What falls, and what to try: `layers` says which to leave in float32."""
    losses: list[str] = []
    for name in losing_tasks(measured, most_lost):
        values = measured[name]
        losses.append(f"\n  {name}: {values.metric} {_shown(values.original)} → {_shown(values.exported)}")
    options = f"--most-lost if that is worth it (now {most_lost:g})"
    advice = options if layers is None else f"{layers}, or {options}"
    reason = f"int8 costs more than it may:{''.join(losses)}\n  Nothing was written. Try {advice}."
    return UserError(f"export: {reason}", code="export-loses")
