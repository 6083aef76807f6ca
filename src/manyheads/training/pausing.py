"""Stop and go: a task that stops improving is paused, and resumed when it gets worse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from manyheads.config.task import TaskSettings
from manyheads.inference.evaluate import Evaluation
from manyheads.parts.metrics import better, primary, worse_by
from manyheads.tasks.task import Task
from manyheads.training.state import PlainState, Progress


@dataclass
class PausedTasks(PlainState):
    """Which tasks are paused, and what decides when they pause and resume."""

    paused: list[str] = field(default_factory=list)
    best_values: dict[str, float | None] = field(default_factory=dict)  # of the primary metric, of tasks with patience
    evaluations_waited: dict[str, int] = field(default_factory=dict)  # since then, where the task was trained
    examples_at_evaluation: dict[str, int] = field(default_factory=dict)  # the task's, when it was last evaluated
    history: list[dict[str, Any]] = field(default_factory=list)  # who paused or resumed, and when

    def update(
        self,
        settings: Mapping[str, TaskSettings],
        tasks: Mapping[str, Task],
        evaluation: Evaluation,
        progress: Progress,
    ) -> list[dict[str, Any]]:
        """After an evaluation: pause and resume tasks. Returns what changed, as records for the log."""
        records = []
        for name, task_settings in settings.items():
            if task_settings.patience is None or not self._has_news(name, progress):
                continue
            reason = self._change(tasks[name], task_settings, evaluation)
            if reason is not None:
                records.append(self._record(name, reason, progress))
        return records

    def _has_news(self, name: str, progress: Progress) -> bool:
        """Not where the task's turn did not come since the last evaluation: that is no lack of progress."""
        examples = progress.examples.get(name, 0)
        trained = examples > self.examples_at_evaluation.get(name, 0)
        self.examples_at_evaluation[name] = examples
        return trained or name in self.paused

    def _change(self, task: Task, settings: TaskSettings, evaluation: Evaluation) -> str | None:
        """Pause or resume one task; returns why, or None where nothing changes."""
        name, metric = task.name, primary(task)
        value, best = evaluation.metrics[name][metric], self.best_values.get(name)
        if name not in self.best_values or better(task, value, best):
            self.best_values[name], self.evaluations_waited[name] = value, 0
            return None
        self.evaluations_waited[name] += 1
        if name in self.paused:
            if settings.resume_margin is None or worse_by(task, value, best) <= settings.resume_margin:
                return None
            self.paused.remove(name)
            self.evaluations_waited[name] = 0
            return f"resumed: its {metric} is {settings.resume_margin:g} or more behind its best"
        if settings.patience is None or self.evaluations_waited[name] < settings.patience:
            return None
        self.paused.append(name)
        times = "evaluation" if settings.patience == 1 else f"{settings.patience} evaluations"
        return f"paused: its {metric} has not improved for the last {times}"

    def _record(self, name: str, reason: str, progress: Progress) -> dict[str, Any]:
        paused = sorted(self.paused)
        share = progress.examples.get(name, 0) / max(1, sum(progress.examples.values()))  # of all examples so far
        self.history.append(
            {"step": progress.step, "task": name, "paused": paused, "share_of_examples": round(share, 4)}
        )
        return {"event": "rotation", "task": name, "what": reason, "paused": paused}
