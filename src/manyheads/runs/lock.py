"""Who is training a run: RUN/run.lock, held by `flock` on this machine and kept fresh for others.

A process that dies gives up its `flock` at once, so a killed run can be resumed on the same machine. Another machine
may not see that lock (network file systems), so the file also says which machine trains the run, and is touched every
few seconds. A lock of another machine is taken only where the caller asks for it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import IO

from manyheads.console import duration
from manyheads.errors import UserError

LOCK_FILE = "run.lock"
HEARTBEAT_SECONDS = 10.0


@dataclass(frozen=True)
class Holder:
    """The process that trains a run."""

    host: str
    process: int
    silent_seconds: float  # since its last heartbeat

    @property
    def is_elsewhere(self) -> bool:
        return self.host != socket.gethostname()

    def describe(self) -> str:
        if self.is_elsewhere:
            return f"process {self.process} on {self.host} (last sign of life {duration(self.silent_seconds)} ago)"
        return f"process {self.process} on this machine"


def find_holder(folder: Path) -> Holder | None:
    """Who trains the run now; None where nobody does, or whoever did on this machine is gone."""
    if not (folder / LOCK_FILE).is_file():
        return None
    try:
        with (folder / LOCK_FILE).open("rb") as file:
            holder = _read_holder(file)
            if holder is None or holder.is_elsewhere:
                return holder
            return None if _try_flock(file, fcntl.LOCK_SH) else holder
    except OSError:
        return None


def check_not_training(folder: Path, take_lock: bool = False) -> None:
    """Stop where another process trains the run. `take_lock` overrules another machine's lock, never this one's."""
    holder = find_holder(folder)
    if holder is not None and not (take_lock and holder.is_elsewhere):
        raise _is_training(folder, holder)


@contextmanager
def hold_lock(folder: Path, take_lock: bool = False) -> Iterator[None]:
    """Hold the run's lock within the block. The folder must exist."""
    check_not_training(folder, take_lock)
    with (folder / LOCK_FILE).open("a+b") as file:
        if not _try_flock(file, fcntl.LOCK_EX):  # another process was quicker
            raise _is_training(folder, find_holder(folder) or Holder(socket.gethostname(), 0, 0.0))
        _write_holder(file, json.dumps({"host": socket.gethostname(), "process": os.getpid()}))
        stopped = Event()
        heart = Thread(target=_beat, args=(file.fileno(), stopped), daemon=True)
        heart.start()
        try:
            yield
        finally:
            stopped.set()
            heart.join()
            _write_holder(file, "")  # the file stays: removing it could take away a lock that the next run just got


def _is_training(folder: Path, holder: Holder) -> UserError:
    advice = "Wait until it has finished, or stop it first."
    if holder.is_elsewhere:
        advice = f"If that process is gone, go on with: manyheads resume {folder} --take-lock"
    return UserError(f"{folder}: this run is being trained by {holder.describe()}. {advice}", "run-is-training")


def _try_flock(file: IO[bytes], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks: the heartbeat is all there is
    return True


def _read_holder(file: IO[bytes]) -> Holder | None:
    try:
        content = json.loads(file.read(4096))
        host, process = str(content["host"]), int(content["process"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None  # given up, or never written whole
    printable_host = "".join(letter for letter in host if letter.isprintable())
    return Holder(printable_host, process, max(0.0, time.time() - os.fstat(file.fileno()).st_mtime))


def _write_holder(file: IO[bytes], content: str) -> None:
    file.truncate(0)
    file.write(content.encode())
    file.flush()


def _beat(descriptor: int, stopped: Event) -> None:
    while not stopped.wait(HEARTBEAT_SECONDS):
        os.utime(descriptor)
