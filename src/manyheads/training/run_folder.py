"""A run folder is opened: made anew, or its last checkpoint is read. Training and pre-training share this."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from manyheads.config.recipe import Recipe
from manyheads.console import Reporter
from manyheads.data.table import question_columns
from manyheads.errors import UserError
from manyheads.runs.lock import LOCK_FILE, check_not_training, hold_lock
from manyheads.runs.log import LOG_FILE, RunLog
from manyheads.storage.files import write_text
from manyheads.tasks.task import PARTS, Task
from manyheads.training.distributed import Processes
from manyheads.training.state import Progress, TrainingState, find_checkpoints


def checkpoints_of(folder: Path) -> Path:
    return folder / "checkpoints"


def has_checkpoint(folder: Path) -> bool:
    return bool(find_checkpoints(checkpoints_of(folder)))


def check_free(folder: Path, overwrite: bool, is_run: bool) -> None:
    """A new run takes no folder that holds anything, unless it may overwrite it and a run of its kind wrote it."""
    if not folder.exists() or not any(file.name != LOCK_FILE for file in folder.iterdir()):
        return
    check_not_training(folder)
    if not overwrite:
        raise UserError(
            f"{folder}: this run folder exists already. Resume it (manyheads resume {folder}), "
            "choose another `name`, or overwrite it (--overwrite; in Python overwrite=True).",
            "run-exists",
        )
    if not is_run:
        raise UserError(f"{folder}: not overwritten, because this command did not write it.", "not-a-run-folder")


def check_not_its_own_source(recipe: Recipe) -> None:
    """A run overwrites none of the models that it is made from."""
    sources = [("init", recipe.init, "the run it starts from", "overwrites-init")]
    sources.append(("extends", recipe.extends, "the run it extends", "overwrites-extended"))
    for teacher_folders in recipe.teachers.values():
        for teacher_folder in teacher_folders:
            sources.append(("teachers", teacher_folder, "its own teacher", "overwrites-teacher"))
    run_folder = recipe.folder.resolve()
    for key, source, description, code in sources:
        if source is not None and Path(source).resolve().is_relative_to(run_folder):
            raise UserError(f"{recipe.location(key)}: a run cannot overwrite {description}; change `name`.", code)


@contextmanager
def locked_folder(folder: Path, processes: Processes, take_lock: bool = False) -> Iterator[None]:
    """Make the folder, and hold its lock within the block; of several processes the main one does."""
    if not processes.main:
        yield
        return
    _make(folder)
    with hold_lock(folder, take_lock):
        yield


def open_folder(
    folder: Path,
    state: TrainingState,
    progress: Progress,
    reporter: Reporter,
    processes: Processes | None = None,
    overwrite: bool = False,
) -> bool:
    """Empty the folder, or load its last checkpoint; the log is cut to fit. Returns whether there was a checkpoint."""
    processes = processes or Processes()
    processes.wait()  # all have seen whether there is an old run
    if processes.main:
        _make(folder)
        if overwrite:
            _empty(folder)
    processes.wait()
    checkpoints = find_checkpoints(checkpoints_of(folder))
    if checkpoints:
        state.load(checkpoints[-1])
        reporter.say(f"resumed after step {progress.step:,}")
    if processes.main:
        RunLog(folder / LOG_FILE).cut_after(progress.step if checkpoints else -1)
    processes.wait()  # all have read the checkpoint, which the next ones may remove
    return bool(checkpoints)


def _empty(folder: Path) -> None:
    """Remove an old run, but for the lock that is held on it."""
    for content in folder.iterdir():
        if content.is_dir() and not content.is_symlink():
            shutil.rmtree(content)
        elif content.name != LOCK_FILE:
            content.unlink()


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{folder}: the run folder cannot be made here: {error.strerror}. Set `output`.", "output-not-writable"
        ) from None


def write_recipe(folder: Path, recipe: Recipe, tasks: dict[str, Task]) -> None:
    """recipe.yaml with all that was inferred."""
    resolved = {name: settings.model_copy(update=_resolved(tasks[name])) for name, settings in recipe.tasks.items()}
    write_text(folder / "recipe.yaml", recipe.model_copy(update={"tasks": resolved}).to_yaml())


def write_tasks(folder: Path, tasks: dict[str, Task]) -> None:
    content = [task.to_json() for task in tasks.values()]
    write_text(folder / "tasks.json", json.dumps(content, indent=1) + "\n")


def _resolved(task: Task) -> dict[str, Any]:
    """What was inferred, as the recipe would have said it."""
    several = isinstance(task.columns.label, tuple)  # whose classes are its columns
    values = {value: task.labels.names[index] for value, index in task.labels.values.items()}
    return {
        "text": list(question_columns(task.columns)),
        "candidates": None if task.columns.choices is None else list(task.columns.choices.candidates),
        "label": list(task.columns.label) if isinstance(task.columns.label, tuple) else task.columns.label,
        "kind": task.kind.name,
        "labels": None if several else (list(values) if list(values) == list(values.values()) else values) or None,
        "separator": task.labels.separator,
        "metrics": list(task.metrics),
        **{part: getattr(task, part) for part in PARTS},
    }
