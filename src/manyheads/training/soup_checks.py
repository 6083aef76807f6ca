"""Which runs may be averaged: the same tasks and parts, on the same data, trained from the same start.

Weights of two trainings lie in one valley of the loss only where they began at one point; elsewhere their mean is a
model that nobody trained, and mostly a poor one. So whatever may differ is looked at, and has a code of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyheads.console import Reporter
from manyheads.errors import UserError
from manyheads.model.folder_checks import read_json
from manyheads.model.saved_tasks import read_model_file
from manyheads.runs.run import Run
from manyheads.storage.files import file_sha256, restore_folder
from manyheads.tasks.task import PARTS, Task
from manyheads.training.extension import earlier_fingerprint, reopen_model
from manyheads.training.start_weights import Start, read_start


@dataclass(frozen=True)
class _Candidate:
    """What is compared of a run; of its weights only those of a model that it extends are read."""

    run: Run
    tasks: dict[str, Task]
    encoder: tuple[Any, ...]  # its shape, tokenizer and longest input
    data: dict[str, str]  # 'TASK SPLIT' → fingerprint
    start: Start
    extended: dict[str, str]  # a fingerprint of what its model has of another; empty if it extends none


def check_averageable(runs: Sequence[Run]) -> list[str]:
    """Stop unless the runs can be averaged. Returns notes on what could not be checked, only read."""
    first = _read(runs[0])
    candidates = [first]
    for run in runs[1:]:
        second = _read(run)
        _check_tasks(first, second)
        _check_encoder(first, second)
        _check_extended(first, second)
        _check_data(first, second)
        _check_start(first, second)
        candidates.append(second)
    notes: dict[str, None] = {}
    if len({run.folder.resolve() for run in runs}) > 1:
        for candidate in candidates:
            if not candidate.start.recorded:
                folder = candidate.run.folder
                notes[f"{folder}: its log does not say which weights it began with; its recipe is believed"] = None
    return list(notes)


def _read(run: Run) -> _Candidate:
    if not run.metrics:
        raise UserError(
            f"{run.folder}: this run is not finished. `manyheads resume {run.folder}` finishes it.", "unfinished-run"
        )
    folder = run.folder / run.model_name
    restore_folder(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: the run's model is gone. `manyheads resume {run.folder}` makes it.", "no-model-yet")
    content, tasks = read_model_file(folder)
    encoder = (_encoder_shape(folder), file_sha256(folder / "tokenizer.json"), content.max_length)
    recipe, extended = run.recipe, {}
    if recipe.extends is not None:
        extended = earlier_fingerprint(reopen_model(run.folder, recipe, Reporter(quiet=True)))
    return _Candidate(run, tasks, encoder, run.metrics.get("data", {}), read_start(run), extended)


def _encoder_shape(folder: Path) -> dict[str, Any]:
    """config.json without dropout, which a model that predicts does not have."""
    config: dict[str, Any] = read_json(folder / "config.json")
    return {key: value for key, value in config.items() if "dropout" not in key}


def _check_tasks(first: _Candidate, second: _Candidate) -> None:
    if set(first.tasks) != set(second.tasks):
        reason = f"have other tasks: {', '.join(first.tasks)} and {', '.join(second.tasks)}"
        raise _refused(first, second, reason, "other-tasks")
    for name, task in first.tasks.items():
        second_task = second.tasks[name]
        if task.labels != second_task.labels:
            raise _refused(first, second, f"have other labels of task '{name}'", "other-labels")
        for part in (*PARTS, "head_of", "both_orders"):
            if getattr(task, part) != getattr(second_task, part):
                raise _refused(first, second, f"have another {part} of task '{name}'", "other-parts")


def _check_encoder(first: _Candidate, second: _Candidate) -> None:
    if first.encoder != second.encoder:
        raise _refused(first, second, "have encoders of another shape, tokenizer or max_length", "other-encoder")


def _check_extended(first: _Candidate, second: _Candidate) -> None:
    """What a run keeps of another model is not averaged, so it must be the same."""
    if first.extended != second.extended:
        raise _refused(first, second, "extend other models", "other-extended")


def _check_data(first: _Candidate, second: _Candidate) -> None:
    differing = []
    for name in {**first.data, **second.data}:
        if name.endswith(" teachers"):  # who taught a run decides nothing of what it holds out
            continue
        if first.data.get(name) != second.data.get(name):
            differing.append(name)
    if differing:
        held_out = "what one of them holds out the other may have trained on"
        raise _refused(first, second, f"have other data ({', '.join(differing)}): {held_out}", "other-data")
    for name, task in first.tasks.items():  # which data decides too, where the recipe does not
        second_task = second.tasks[name]
        if (task.offset, task.unit, task.bounds) != (second_task.offset, second_task.unit, second_task.bounds):
            raise _refused(first, second, f"read the labels of task '{name}' on another scale", "other-labels")


def _check_start(first: _Candidate, second: _Candidate) -> None:
    start, second_start = first.start, second.start
    if not start.same_encoder(second_start):
        named = " and ".join(str(init or encoder) for encoder, init in (start.named, second_start.named))
        raise _refused(first, second, f"started from encoders with other weights ({named})", "other-start")
    for name, task in first.tasks.items():
        if task.head_of is None and not start.same_head(second_start, name):
            reason = (
                f"started from other heads of task '{name}': only linear heads that the probe solves (training.probe) "
                "have a start in common whatever the seed"
            )
            raise _refused(first, second, reason, "other-heads")


def _refused(first: _Candidate, second: _Candidate, reason: str, code: str) -> UserError:
    return UserError(f"average: {first.run.folder} and {second.run.folder} {reason}. Leave one of them out.", code)
