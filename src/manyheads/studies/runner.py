"""Train the runs of a study: each in a process of its own, several at a time, each at most once."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import IO

from manyheads.config.recipe import Recipe
from manyheads.console import SECONDS_BETWEEN_LINES, Reporter, duration
from manyheads.errors import Interrupted
from manyheads.runs.run import Run
from manyheads.storage.files import write_text
from manyheads.studies.folder import RunStatus, StudyFolder, failure_reason, run_status, share_of_steps
from manyheads.studies.variants import PlannedRun
from manyheads.training.interrupt import stop_signals

SECONDS_TO_SAVE = 30.0  # that a run has to save itself before the study kills it
SECONDS_BETWEEN_LOOKS = 0.2
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


def run_study(
    folder: StudyFolder,
    runs: Sequence[tuple[str, PlannedRun]],
    reporter: Reporter,
    jobs: int,
    threads: int,
    keep_models: bool,
) -> list[RunStatus]:
    """Train what is not finished, `jobs` at a time. A run that fails does not stop the others."""
    distinct: dict[str, PlannedRun] = {}
    for identity, planned in runs:
        distinct.setdefault(identity, planned)  # of rows that share a run the first names it
    waiting = _unfinished(folder, distinct)
    finished = sum(map(folder.results.has, distinct))
    reporter.say(f"{len(distinct)} runs, {finished} finished before; {jobs} at a time with {threads} threads each")
    queue = _RunQueue(folder, reporter, distinct, waiting, threads, keep_models)
    progress = _StudyProgress(folder, reporter, distinct, finished)
    with stop_signals() as received_signals:
        while (queue.waiting or queue.processes) and not received_signals:
            queue.collect_ended()
            queue.start_next(jobs)
            progress.show(queue.running, queue.failed)
            time.sleep(SECONDS_BETWEEN_LOOKS)
        if received_signals:
            _stop(queue.processes)
            finished = sum(map(folder.results.has, distinct))
            raise Interrupted(
                f"Stopped with {finished} of {len(distinct)} runs finished. The same command goes on.",
                received_signals[0],
            )
    progress.show([], queue.failed, always=True)
    return [run_status(folder, identity, planned) for identity, planned in runs]


def _unfinished(folder: StudyFolder, planned_runs: dict[str, PlannedRun]) -> list[str]:
    """Runs without a result, and teachers of these whose weights are gone: they are trained again."""
    without_result = [identity for identity in planned_runs if not folder.results.has(identity)]
    needed = _teachers_of(planned_runs[identity] for identity in without_result)
    return [identity for identity in planned_runs if not folder.is_finished(identity, identity in needed)]


def _teachers_of(planned_runs: Iterable[PlannedRun]) -> set[str]:
    teachers: set[str] = set()
    for planned in planned_runs:
        for identities in planned.teachers.values():
            teachers.update(identities)
    return teachers


def train_in_process(folder: StudyFolder, identity: str, planned: PlannedRun, keep: bool = False) -> None:
    """Train one run in this process, if it is not finished: for trying things out. `keep`: its folder stays."""
    from manyheads.training.loop import train

    if not folder.results.has(identity):
        run = train(_run_recipe(planned, folder, identity), overwrite=True, quiet=True)
        folder.results.collect(run, identity, planned.first_seed, planned.margins)
        if not keep:
            shutil.rmtree(folder.run(identity))


def _run_recipe(planned: PlannedRun, folder: StudyFolder, identity: str) -> Recipe:
    runs = str((folder.path / "runs").resolve())
    changes: dict[str, object] = {"name": identity, "output": runs, "report": False}
    if planned.teachers:
        teachers: dict[str, list[str]] = {}
        for task, identities in planned.teachers.items():
            teachers[task] = [str(folder.run(teacher).resolve()) for teacher in identities]
        changes["teachers"] = teachers
    return planned.recipe.model_copy(update=changes)


# --- processes --------------------------------------------------------------------------------------------------


@dataclass
class RunProcess:
    """A process that trains one run."""

    identity: str
    planned: PlannedRun
    process: subprocess.Popen[bytes]
    log: IO[bytes]


@dataclass
class _RunQueue:
    """The runs of a study that wait, those in training, and those that failed."""

    folder: StudyFolder
    reporter: Reporter
    planned: dict[str, PlannedRun]
    waiting: list[str]
    threads: int
    keep_models: bool

    def __post_init__(self) -> None:
        self.processes: list[RunProcess] = []
        self.failed: set[str] = set()
        self.kept_for_students: set[str] = set()

    @property
    def running(self) -> list[str]:
        return [process.identity for process in self.processes]

    @property
    def needed_models(self) -> set[str]:
        """Teachers of runs that wait or are in training."""
        return _teachers_of(self.planned[identity] for identity in [*self.waiting, *self.running])

    def collect_ended(self) -> None:
        """Keep the results of processes that ended, and say why any failed."""
        for ended in list(self.processes):
            if ended.process.poll() is None:
                continue
            self.processes.remove(ended)
            if not self._collect(ended):
                self.failed.add(ended.identity)
                self.reporter.say(f"failed: {ended.planned.label}: {_why_failed(self.folder, ended)}")
            ended.log.close()  # gives up the lock, so not before others can find the result

    def _collect(self, ended: RunProcess) -> bool:
        """False where the run failed."""
        run_folder = self.folder.run(ended.identity)
        if ended.process.returncode != 0 or not (run_folder / "metrics.json").is_file():
            return False
        planned = ended.planned
        self.folder.results.collect(Run(run_folder), ended.identity, planned.first_seed, planned.margins)
        shutil.rmtree(run_folder / "checkpoints", ignore_errors=True)
        if not self.keep_models:
            self.kept_for_students.add(ended.identity)
            self._delete_models()
        return True

    def _delete_models(self) -> None:
        """Of the runs that this study has trained and nobody learns from any more."""
        for identity in self.kept_for_students - self.needed_models:
            for model in self.folder.run(identity).glob("best*"):
                shutil.rmtree(model)
            self.kept_for_students.remove(identity)

    def start_next(self, jobs: int) -> None:
        """Start waiting runs, as many as there is room for; students when their teachers are trained."""
        for identity in list(self.waiting):
            needs_model = identity in self.needed_models
            if self.folder.is_finished(identity, needs_model):  # another process has finished it
                self.waiting.remove(identity)
            elif self._has_lost_teachers(identity):
                self.waiting.remove(identity)
                self.failed.add(identity)
                self.reporter.say(f"failed: {self.planned[identity].label}: a run that should teach it failed")
            elif len(self.processes) < jobs and self._has_teachers(identity):
                process = start_run(self.folder, identity, self.planned[identity], self.threads, needs_model)
                if process is not None:
                    self.processes.append(process)
                    self.waiting.remove(identity)

    def _has_teachers(self, identity: str) -> bool:
        """Whether all its teachers are trained."""
        teachers = _teachers_of([self.planned[identity]])
        return all(self.folder.is_finished(teacher, with_model=True) for teacher in teachers)

    def _has_lost_teachers(self, identity: str) -> bool:
        """Whether a teacher failed, or its weights were deleted while the study ran."""
        for teacher in _teachers_of([self.planned[identity]]):
            expected = teacher in self.waiting or teacher in self.running
            if not expected and not self.folder.is_finished(teacher, with_model=True):
                return True
        return False


def start_run(
    folder: StudyFolder, identity: str, planned: PlannedRun, threads: int, needs_model: bool = False
) -> RunProcess | None:
    """A process that trains or resumes a run; None where another process trains it, or has just finished it.

    `needs_model`: a run with a result and without weights is trained again.
    """
    log = folder.log(identity)
    log.parent.mkdir(parents=True, exist_ok=True)
    output = log.open("ab")
    try:
        fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held by the child, whose stderr it is, as long as it lives
    except BlockingIOError:
        output.close()
        return None
    if folder.is_finished(identity, needs_model):
        output.close()
        return None
    output.truncate(0)
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
    for variable in THREAD_VARIABLES:
        environment[variable] = str(threads)
    process = subprocess.Popen(
        [sys.executable, "-m", "manyheads", *_command(folder, identity, planned)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=output,
        env=environment,
        start_new_session=True,  # a Ctrl-C reaches the study alone, which then asks its runs to stop
    )
    return RunProcess(identity, planned, process, output)


def _command(folder: StudyFolder, identity: str, planned: PlannedRun) -> list[str]:
    """Resume where there is something to resume, else train from the start."""
    run_folder = folder.run(identity)
    is_finished = (run_folder / "metrics.json").is_file() and folder.model(identity).is_dir()
    if is_finished or any((run_folder / "checkpoints").glob("*")):
        return ["resume", str(run_folder)]
    recipe_file = folder.recipe(identity)
    write_text(recipe_file, _run_recipe(planned, folder, identity).to_yaml())
    shutil.rmtree(run_folder, ignore_errors=True)
    return ["train", str(recipe_file), "--overwrite"]


def _stop(processes: list[RunProcess]) -> None:
    """Ask every run to save itself and stop."""
    for running in processes:
        running.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + SECONDS_TO_SAVE
    for running in processes:
        try:
            running.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            running.process.kill()
            running.process.wait()
        running.log.close()


def _why_failed(folder: StudyFolder, ended: RunProcess) -> str:
    code = ended.process.returncode
    if code < 0:
        return f"it was killed (signal {-code}); the same command goes on from its last checkpoint"
    return failure_reason(folder.log(ended.identity)) or f"it ended with code {code}"


# --- progress ---------------------------------------------------------------------------------------------------


class _StudyProgress:
    """A line every few seconds: how many runs are finished, which are in training, how long the study will take."""

    def __init__(self, folder: StudyFolder, reporter: Reporter, runs: dict[str, PlannedRun], finished: int) -> None:
        self.folder, self.reporter, self.runs = folder, reporter, runs
        self.began = time.monotonic()
        self.finished_before = finished + self._partly_finished(())
        self.printed = 0.0

    def show(self, running: list[str], failed: set[str], always: bool = False) -> None:
        now = time.monotonic()
        if not always and now - self.printed < SECONDS_BETWEEN_LINES:
            return
        self.printed = now
        finished = sum(map(self.folder.results.has, self.runs))
        progress = finished + self._partly_finished(failed)
        trained, remaining = progress - self.finished_before, len(self.runs) - len(failed) - progress
        words = [f"study {finished}/{len(self.runs)} runs"]
        for identity in running:
            words.append(f"{self.runs[identity].label} {share_of_steps(self.folder.run(identity)):.0%}")
        if failed:
            words.append(f"{len(failed)} failed")
        if trained > 0.05 and remaining > 0:
            words.append(f"{duration((now - self.began) / trained * remaining)} left")
        self.reporter.say("  ".join(words))

    def _partly_finished(self, failed: Collection[str]) -> float:
        """Shares of the runs that are not finished, added up; some were begun before this process."""
        total = 0.0
        for identity in self.runs:
            if identity not in failed and not self.folder.results.has(identity):
                total += share_of_steps(self.folder.run(identity))
        return total
