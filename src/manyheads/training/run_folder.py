"""A run folder is opened: made anew with its recipe as resolved, or its last checkpoint is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from manyheads.errors import UserError
from manyheads.runs.log import LOG_FILE, RunLog
from manyheads.storage.files import restore_folder, write_text
from manyheads.tasks.task import PARTS, Task
from manyheads.training import checkpoint as saved

if TYPE_CHECKING:
    from manyheads.training.setup import TrainingJob


def make_folder(job: TrainingJob) -> None:
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{job.folder}: the run folder cannot be made here: {error.strerror}. Set `output`.") from None


def open_folder(job: TrainingJob) -> None:
    """A new run folder, or the last checkpoint of an old one."""
    found = saved.find_checkpoints(job.folder / "checkpoints")
    if found:
        state = saved.read_state(found[-1])
        if state["data"] != job.data_fingerprint:
            raise UserError(f"{job.folder}: its training or dev data has changed since it was started; train it anew.")
        here = job.machine
        if state["machine"] != here:
            job.reporter.say(f"warning: started with {state['machine']}, resumed with {here}: results may differ")
        job.progress = type(job.progress)(**state["progress"])
        for phase in job.schedule.phases:
            if phase.first < job.progress.step:
                job.schedule.begin(phase, job.model)  # makes room for what the checkpoint remembers
        saved.load_checkpoint(found[-1], job.model, job.schedule.memory, job.optimizer)
        _forget_lost_models(job)
        job.reporter.say(f"resumed after step {job.progress.step:,}")
    if job.processes.main:
        RunLog(job.folder / LOG_FILE).cut_after(job.progress.step if found else -1)
    if not found and job.processes.main:
        resolved = {
            name: settings.model_copy(update=_resolved(job.model.tasks[name]))
            for name, settings in job.recipe.tasks.items()
        }
        write_text(job.folder / "recipe.yaml", job.recipe.model_copy(update={"tasks": resolved}).to_yaml())
        job.write_log(
            {
                "event": "start",
                "steps": job.steps,
                "batch_sizes": job.batch_sizes,
                "machine": job.machine,
                "notes": job.notes,
            }
        )
        tasks = [task.to_json() for task in job.model.tasks.values()]
        write_text(job.folder / "tasks.json", json.dumps(tasks, indent=1) + "\n")


def _forget_lost_models(job: TrainingJob) -> None:
    """A best/ that was deleted or damaged no longer counts as the best so far."""
    for task in list(job.progress.best):
        folder = job.folder / (f"best-{task}" if task else "best")
        restore_folder(folder)
        if not folder.is_dir():
            del job.progress.best[task]
            job.reporter.say(f"note: {folder} is gone; the best from here on takes its place")


def _resolved(task: Task) -> dict[str, Any]:
    """What was inferred, as the recipe would have said it."""
    several = isinstance(task.columns.label, tuple)  # whose classes are its columns
    values = {value: task.labels.names[index] for value, index in task.labels.values.items()}
    return {
        "text": list(task.columns.text),
        "label": list(task.columns.label) if isinstance(task.columns.label, tuple) else task.columns.label,
        "kind": task.kind,
        "labels": None if several else (list(values) if list(values) == list(values.values()) else values) or None,
        "separator": task.labels.separator,
        "metrics": list(task.metrics),
        **{part: getattr(task, part) for part in PARTS},
    }
