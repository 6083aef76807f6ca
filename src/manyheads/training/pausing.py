"""Stop and go: a task that stops improving leaves the rotation, and comes back when it gets worse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manyheads.parts.metrics import better, primary, worse_by

if TYPE_CHECKING:
    from manyheads.inference.evaluate import Evaluation
    from manyheads.training.setup import TrainingJob


def pause_or_resume(job: TrainingJob, found: Evaluation) -> None:
    """After an evaluation: which tasks rest from here on, and which come back. What changes is said and logged."""
    progress = job.progress
    for name, settings in job.recipe.tasks.items():
        if settings.patience is None:
            continue
        task = job.model.tasks[name]
        seen = progress.examples.get(name, 0)
        trained = seen > progress.seen_at.get(name, 0)
        progress.seen_at[name] = seen
        if not trained and name not in progress.paused:
            continue  # its turn has not come: that is no lack of progress
        value, peak = found.metrics[name][primary(task)], progress.peaks.get(name)
        if name not in progress.peaks or better(task, value, peak):
            progress.peaks[name], progress.waited[name] = value, 0
            continue
        progress.waited[name] += 1
        if name in progress.paused:
            if settings.resume_margin is not None and worse_by(task, value, peak) > settings.resume_margin:
                progress.paused.remove(name)
                progress.waited[name] = 0
                _tell(
                    job, name, f"comes back: its {primary(task)} is {settings.resume_margin:g} or more behind its best"
                )
        elif progress.waited[name] >= settings.patience:
            progress.paused.append(name)
            times = "evaluation" if settings.patience == 1 else f"{settings.patience} evaluations"
            _tell(job, name, f"rests: its {primary(task)} has not improved for the last {times}")


def _tell(job: TrainingJob, task: str, what: str) -> None:
    paused = sorted(job.progress.paused)
    examples = job.progress.examples
    share = examples.get(task, 0) / max(1, sum(examples.values()))  # of all examples so far
    job.progress.pauses.append(
        {"step": job.progress.step, "task": task, "paused": paused, "share_of_examples": round(share, 4)}
    )
    job.write_log({"event": "rotation", "task": task, "what": what, "paused": paused})
    job.reporter.say(f"task {task} {what}")
