"""How a run went: its evaluations while training, one entry each, and which of them was a task's best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manyheads.parts.metrics import better, primary
from manyheads.runs.log import Record
from manyheads.tasks.task import Task

Entry = dict[str, Any]

KEYS = ("step", "epoch", "metrics", "overall", "losses", "examples")
TRAIN_KEYS = ("train", "train_losses")  # where `evaluate.train_examples` is set
DIGITS = 6  # of a number that is kept


def read_history(records: Sequence[Record]) -> list[Entry]:
    """The evaluations of a log, oldest first, with the numbers that are kept of each.

    One entry per step: a run that was stopped between an evaluation and its checkpoint evaluates again.
    """
    by_step: dict[int, Entry] = {}
    for record in records:
        if record["event"] != "evaluate":
            continue
        entry = {key: _rounded(record[key]) for key in (*KEYS, *TRAIN_KEYS) if key in record}
        if "averaged" in record:  # where `training.average_weights` is set
            entry["averaged_overall"] = _rounded(record["averaged"]["overall"])
        by_step[record["step"]] = entry
    return [by_step[step] for step in sorted(by_step)]


def best_entry(history: Sequence[Entry], task: Task) -> Entry | None:
    """The evaluation with the best primary metric of a task, of equal ones the first; None where there is none.

    The evaluation before the first step is of a model that was not trained, and does not count.
    """
    metric = primary(task)
    best: Entry | None = None
    best_value: float | None = None
    for entry in history:
        value = entry["metrics"].get(task.name, {}).get(metric)
        if entry["step"] and value is not None and (best is None or better(task, value, best_value)):
            best, best_value = entry, value
    return best


def best_overall_entry(history: Sequence[Entry]) -> Entry | None:
    """The evaluation that chose best/: the first with the highest overall score, of raw weights or averaged ones."""
    best: Entry | None = None
    for entry in history:
        if entry["step"] and (best is None or _best_score(entry) > _best_score(best)):
            best = entry
    return best


def _best_score(entry: Entry) -> float:
    return max(entry["overall"], entry.get("averaged_overall", entry["overall"]))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, float):
        return round(value, DIGITS)
    return value
