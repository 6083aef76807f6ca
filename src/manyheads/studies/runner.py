"""Runs of a study as processes of their own: several at a time, each at most once, whatever stops them.

    FOLDER/recipes/ID.yaml   what a run trains        FOLDER/runs/ID/         its run folder
    FOLDER/logs/ID.txt       what it printed          FOLDER/results/ID.json.gz   what is left of it

All studies of a folder share its runs: two studies that contain the same run train it once. Whoever works on a run
holds the lock of its log; a lock that is held means that some process, this study's or another's, is at it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from manyheads.config.recipe import Recipe
from manyheads.console import SECONDS_BETWEEN_LINES, Reporter, duration
from manyheads.errors import Interrupted, UserError
from manyheads.runs.log import LOG_FILE, RunLog
from manyheads.runs.run import Run
from manyheads.storage.files import write_text
from manyheads.studies.store import Results
from manyheads.studies.variants import Planned
from manyheads.training.interrupt import stop_signals

State = Literal["finished", "running", "failed", "stopped", "to do"]
PATIENCE = 30.0  # seconds that a run has to save itself before the study leaves it


@dataclass(frozen=True)
class Place:
    """The folder in which studies keep their runs."""

    folder: Path

    @property
    def results(self) -> Results:
        return Results(self.folder / "results")

    def recipe(self, identity: str) -> Path:
        return self.folder / "recipes" / f"{identity}.yaml"

    def run(self, identity: str) -> Path:
        return self.folder / "runs" / identity

    def log(self, identity: str) -> Path:
        return self.folder / "logs" / f"{identity}.txt"


@dataclass
class Work:
    """A process that trains one run."""

    identity: str
    planned: Planned
    process: subprocess.Popen[bytes]
    log: IO[bytes]


@dataclass(frozen=True)
class Standing:
    """How far a run is."""

    planned: Planned
    identity: str
    state: State
    share: float  # of its steps
    reason: str = ""  # why it failed


def run_study(
    location: Place,
    runs: Sequence[tuple[str, Planned]],
    reporter: Reporter,
    jobs: int,
    threads: int,
    keep_models: bool,
) -> list[Standing]:
    """Train what is not finished, `jobs` at a time. A run that fails does not stop the others."""
    distinct = dict(reversed(runs))  # of rows that share a run the first names it
    distinct = {identity: distinct[identity] for identity, _ in runs}
    waiting = [identity for identity in distinct if not location.results.have(identity)]
    ready = len(distinct) - len(waiting)
    reporter.say(f"{len(distinct)} runs, {ready} finished before; {jobs} at a time with {threads} threads each")
    working: list[Work] = []
    failed: set[str] = set()
    board = _Board(location, reporter, distinct, ready)
    with stop_signals() as asked:
        while (waiting or working) and not asked:
            for work in [one for one in working if one.process.poll() is not None]:
                working.remove(work)
                if not _finish(location, work, keep_models):
                    failed.add(work.identity)
                    reporter.say(f"failed: {work.planned.label}: {_why(location, work)}")
                work.log.close()  # gives up the lock, so not before the result is there for others to find
            for identity in list(waiting):
                if location.results.have(identity):  # another process has done it
                    waiting.remove(identity)
                elif len(working) < jobs:
                    work_on = _start(location, identity, distinct[identity], threads)
                    if work_on is not None:
                        working.append(work_on)
                        waiting.remove(identity)
            board.show([one.identity for one in working], failed)
            time.sleep(0.2)
        if asked:
            _stop(working)
            done = sum(map(location.results.have, distinct))
            raise Interrupted(
                f"Stopped with {done} of {len(distinct)} runs finished. The same command goes on.", asked[0]
            )
    board.show([], failed, always=True)
    return [standing(location, identity, planned) for identity, planned in runs]


def run_here(location: Place, identity: str, planned: Planned) -> None:
    """Train one run in this process, if it is not finished: for trying things out."""
    from manyheads.training.loop import train

    if not location.results.have(identity):
        recipe = _named(planned.recipe, location, identity)
        run = train(recipe, overwrite=True, quiet=True)
        location.results.collect(run, identity)
        shutil.rmtree(location.run(identity))


def standing(location: Place, identity: str, planned: Planned) -> Standing:
    """How far a run is, as its files tell."""
    if location.results.have(identity):
        return Standing(planned, identity, "finished", 1.0)
    log = location.log(identity)
    if not log.is_file():
        return Standing(planned, identity, "to do", 0.0)
    share = _share(location.run(identity))
    if _locked(log):
        return Standing(planned, identity, "running", share)
    reason = _reason(location, identity)
    return Standing(planned, identity, "failed" if reason else "stopped", share, reason)


# --- one run ----------------------------------------------------------------------------------------------------


def _start(location: Place, identity: str, planned: Planned, threads: int) -> Work | None:
    """A process that trains a run, or goes on with it; None where another process is at it, or has just finished."""
    log = location.log(identity)
    log.parent.mkdir(parents=True, exist_ok=True)
    output = log.open("ab")
    try:
        fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held by the child, whose stderr it is, as long as it lives
    except BlockingIOError:
        output.close()
        return None
    if location.results.have(identity):
        output.close()
        return None
    output.truncate(0)
    folder = location.run(identity)
    words = ["resume", str(folder)]
    if not any((folder / "checkpoints").glob("*")) and not (folder / "metrics.json").is_file():
        recipe = _named(planned.recipe, location, identity)
        write_text(location.recipe(identity), recipe.to_yaml())
        words = ["train", str(location.recipe(identity)), "--overwrite"]
        shutil.rmtree(folder, ignore_errors=True)
    one_word = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")}
    process = subprocess.Popen(
        [sys.executable, "-m", "manyheads", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=output,
        env={**os.environ, **one_word, "TOKENIZERS_PARALLELISM": "false"},
        start_new_session=True,  # a Ctrl-C reaches the study alone, which then asks its runs to stop
    )
    return Work(identity, planned, process, output)


def _named(recipe: Recipe, location: Place, identity: str) -> Recipe:
    runs = str((location.folder / "runs").resolve())
    return recipe.model_copy(update={"name": identity, "output": runs, "report": False})


def _finish(location: Place, work: Work, keep_models: bool) -> bool:
    """Collect the result of a run whose process has ended; False where it failed."""
    folder = location.run(work.identity)
    if work.process.returncode != 0 or not (folder / "metrics.json").is_file():
        return False
    location.results.collect(Run(folder), work.identity)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    for model in folder.glob("best*") if not keep_models else ():
        shutil.rmtree(model)
    return True


def _stop(working: list[Work]) -> None:
    """Ask every run to save itself and stop."""
    for work in working:
        work.process.send_signal(signal.SIGTERM)
    end = time.monotonic() + PATIENCE
    for work in working:
        try:
            work.process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            work.process.kill()
            work.process.wait()
        work.log.close()


def _reason(location: Place, identity: str) -> str:
    """Why a run failed: the last error it printed, else its last line; nothing where it was only stopped."""
    log = location.log(identity)
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    for number, line in reversed(list(enumerate(lines))):
        if line.startswith("error: "):
            return " ".join(lines[number:]).removeprefix("error: ")
    if not lines or lines[-1].startswith("Stopped after step") or not any("Traceback" in line for line in lines):
        return ""
    return lines[-1]


def _why(location: Place, work: Work) -> str:
    if work.process.returncode < 0:
        return f"it was killed (signal {-work.process.returncode}); the same command goes on from its last checkpoint"
    return _reason(location, work.identity) or f"it ended with code {work.process.returncode}"


def _share(folder: Path) -> float:
    """How much of its steps a run has done."""
    log = RunLog(folder / LOG_FILE)
    first, last = log.first(), log.last()
    if first is None or last is None or "steps" not in first:
        return 0.0
    return last["step"] / max(1, first["steps"])


def _locked(log: Path) -> bool:
    with log.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(file, fcntl.LOCK_UN)
    return False


# --- what is shown ----------------------------------------------------------------------------------------------


class _Board:
    """A line every few seconds: how many runs are done, what works now, how long it will take."""

    def __init__(self, location: Place, reporter: Reporter, runs: dict[str, Planned], ready: int) -> None:
        self.location, self.reporter, self.runs = location, reporter, runs
        self.began = time.monotonic()
        self.before = ready + self._begun(())
        self.printed = 0.0

    def show(self, working: list[str], failed: set[str], always: bool = False) -> None:
        now = time.monotonic()
        if not always and now - self.printed < SECONDS_BETWEEN_LINES:
            return
        self.printed = now
        done = sum(self.location.results.have(one) for one in self.runs)
        whole = done + self._begun(failed)
        worked, left = whole - self.before, len(self.runs) - len(failed) - whole
        words = [f"study {done}/{len(self.runs)} runs"]
        words += [f"{self.runs[one].label} {_share(self.location.run(one)):.0%}" for one in working]
        if failed:
            words.append(f"{len(failed)} failed")
        if worked > 0.05 and left > 0:
            words.append(f"{duration((now - self.began) / worked * left)} left")
        self.reporter.say("  ".join(words))

    def _begun(self, failed: Collection[str]) -> float:
        """How much is done of the runs that are not finished: some were begun before this process."""
        unfinished = [one for one in self.runs if one not in failed and not self.location.results.have(one)]
        return sum(_share(self.location.run(one)) for one in unfinished)


def check_folder(folder: Path) -> Place:
    """The place where studies are kept; it must be possible to write there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: no studies can be kept here: {error.strerror}. Set --output.") from None
    return Place(folder)
