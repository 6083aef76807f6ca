"""The folder that keeps the runs of all studies, and how far each run is.

    FOLDER/recipes/ID.yaml   what a run trains        FOLDER/runs/ID/             its run folder
    FOLDER/logs/ID.txt       what it printed          FOLDER/results/ID.json.gz   its result

All studies of a folder share its runs: two studies that contain the same run train it once. The process that trains a
run holds the lock of its log, whichever study started it.
"""

from __future__ import annotations

import fcntl
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from manyheads.errors import UserError
from manyheads.runs.log import LOG_FILE, RunLog
from manyheads.studies.store import ResultStore
from manyheads.studies.variants import PlannedRun

State = Literal["finished", "running", "failed", "stopped", "to do"]


@dataclass(frozen=True)
class StudyFolder:
    """Where studies keep their runs."""

    path: Path

    @property
    def results(self) -> ResultStore:
        return ResultStore(self.path / "results")

    def recipe(self, identity: str) -> Path:
        return self.path / "recipes" / f"{identity}.yaml"

    def run(self, identity: str) -> Path:
        return self.path / "runs" / identity

    def log(self, identity: str) -> Path:
        return self.path / "logs" / f"{identity}.txt"

    def model(self, identity: str) -> Path:
        return self.run(identity) / "best"

    def is_finished(self, identity: str, with_model: bool = False) -> bool:
        """Whether there is a result; `with_model`: and the weights, which others learn from."""
        return self.results.has(identity) and (not with_model or self.model(identity).is_dir())


@dataclass(frozen=True)
class RunStatus:
    """How far a run is."""

    planned: PlannedRun
    identity: str
    state: State
    share: float  # of its steps
    reason: str = ""  # why it failed


def create_study_folder(path: Path) -> StudyFolder:
    """Stop early where the folder cannot be written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{path}: cannot keep studies in this folder: {error.strerror}. Set --output.", code="not-writable"
        ) from None
    return StudyFolder(path)


def run_status(folder: StudyFolder, identity: str, planned: PlannedRun) -> RunStatus:
    """How far a run is, as its files tell."""
    if folder.results.has(identity):
        return RunStatus(planned, identity, "finished", 1.0)
    log = folder.log(identity)
    if not log.is_file():
        return RunStatus(planned, identity, "to do", 0.0)
    share = share_of_steps(folder.run(identity))
    if _is_locked(log):
        return RunStatus(planned, identity, "running", share)
    reason = failure_reason(log)
    if reason:
        return RunStatus(planned, identity, "failed", share, reason)
    return RunStatus(planned, identity, "stopped", share)


def status_line(folder: StudyFolder, status: RunStatus) -> dict[str, object]:
    """Which row, task and seed a run is, how far it is, and which folder has it."""
    state: str = status.state
    if state not in ("finished", "to do"):
        state = f"{state} at {status.share:.0%}"
    run_folder = folder.run(status.identity)
    shown_folder = str(run_folder)
    if status.state == "finished" and not run_folder.is_dir():
        shown_folder = f"{status.identity} (result only)"  # imported, or its folder was deleted
    planned = status.planned
    return {
        "row": planned.row,
        "run": planned.member,
        "seed": planned.seed,
        "state": state,
        "folder": shown_folder,
        "reason": status.reason,
    }


def failure_reason(log: Path) -> str:
    """The last error that a run printed, else its last line; empty where the run was only stopped."""
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    for index in reversed(range(len(lines))):
        if lines[index].startswith("error: "):
            return " ".join(lines[index:]).removeprefix("error: ")
    if not lines or lines[-1].startswith("Stopped after step"):
        return ""
    crashed = any("Traceback" in line for line in lines)
    if not crashed:
        return ""
    return lines[-1]


def share_of_steps(run_folder: Path) -> float:
    """How much of its steps a run has done."""
    log = RunLog(run_folder / LOG_FILE)
    first, last = log.first(), log.last()
    if first is None or last is None or "steps" not in first:
        return 0.0
    return float(last["step"]) / max(1, first["steps"])


def _is_locked(log: Path) -> bool:
    with log.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(file, fcntl.LOCK_UN)
    return False
