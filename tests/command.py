"""Run the command that a user would run, in a process of its own.

Starting Python and importing torch takes seconds; a warm process that has done so forks one child per command. Each
child is a real process with its own arguments, environment, input and output, and can really be killed. Several may be
under way at once: each has a parent of its own that waits for it.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVER = """
import gc, importlib, json, os, pkgutil, sys, traceback
import accelerate, datasets, pyarrow.parquet, scipy.stats, sklearn.metrics, torch._dynamo, torchjd.aggregation
import matplotlib.backends.backend_agg, matplotlib.backends.backend_svg, matplotlib.figure
import transformers, transformers.models.bert, uvicorn
import manyheads
os.fsync = lambda descriptor: None  # as in conftest.py
for module in pkgutil.walk_packages(manyheads.__path__, "manyheads."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
manyheads.config.defaults.read_defaults("0.1")
for part in manyheads.registry.parts():
    part.options
gc.collect()
gc.freeze()  # a child that looked through all of these objects for garbage would copy their pages
parents = []  # of commands
for line in sys.stdin:
    job = json.loads(line)
    parents = [parent for parent in parents if os.waitpid(parent, os.WNOHANG)[0] == 0]
    parent = os.fork()
    if parent:
        parents.append(parent)
        continue
    child = os.fork()
    if child:
        print(child, flush=True)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with open(job["code"] + ".part", "w") as file:
            file.write(str(code))
        os.rename(job["code"] + ".part", job["code"])  # whole, as soon as it is there
        os._exit(0)
    for number, name, flags in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_WRONLY), (2, "stderr", os.O_WRONLY)):
        os.dup2(os.open(job[name], flags), number)
    sys.stdin = open(0, closefd=False)
    os.environ.clear()
    os.environ.update(job["env"])
    sys.argv = ["manyheads", *job["words"]]
    exec(job["before"])
    code = 0
    try:
        exec(job["program"])
    except SystemExit as exit:
        code = exit.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # at once: tearing down so many modules takes seconds
for parent in parents:
    os.waitpid(parent, os.WNOHANG)
os._exit(0)
"""


COMMAND_LINE = "manyheads.cli.main()"
SECONDS_OF_TWO = 300.0  # that two processes may take together
SECONDS_TO_FAIL_TOO = 20.0  # that the second of two processes has after the first has failed

# `before` of a study command: its runs are forked from its own warm process too, in place of new interpreters
FORKED_RUNS = """
import signal, time, types
import manyheads.studies.runner as runner

class ForkedRun:
    def __init__(self, command, stdin, stdout, stderr, env, start_new_session):
        self.returncode = None
        self.pid = os.fork()
        if self.pid:
            return
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(stderr.fileno(), 2)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # locks of other runs among them
        os.environ.clear()
        os.environ.update(env)
        sys.argv = ["manyheads", *command[3:]]
        code = 0
        try:
            manyheads.cli.main()
        except SystemExit as exit:
            code = exit.code or 0
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stderr.flush()
        os._exit(code)

    def poll(self):
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout=60.0):
        until = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("a run", timeout)
            time.sleep(0.005)

    def send_signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

import subprocess
runner.subprocess = types.SimpleNamespace(
    Popen=ForkedRun, DEVNULL=None, TimeoutExpired=subprocess.TimeoutExpired
)
"""


@dataclass
class Started:
    """A command under way."""

    process: int
    folder: tempfile.TemporaryDirectory[str]
    words: list[str]

    def kill(self, signal: int) -> None:
        os.kill(self.process, signal)

    @property
    def _code_file(self) -> Path:
        return Path(self.folder.name) / "code"

    def has_ended(self) -> bool:
        return self._code_file.exists()

    def has_failed(self) -> bool:
        return self.has_ended() and int(self._code_file.read_text()) != 0

    def wait(self) -> subprocess.CompletedProcess[str]:
        while not self.has_ended():
            time.sleep(0.005)
        code = int(self._code_file.read_text())
        found = [(Path(self.folder.name) / name).read_text() for name in ("stdout", "stderr")]
        self.folder.cleanup()
        return subprocess.CompletedProcess(self.words, code, *found)


_server: list[subprocess.Popen[str]] = []


def _warm() -> subprocess.Popen[str]:
    if not _server:
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        _server.append(server)
        atexit.register(_end, server)
    return _server[0]


def _end(server: subprocess.Popen[str]) -> None:
    assert server.stdin
    server.stdin.close()
    server.wait()


def start(
    *words: str | Path,
    stdin: str = "",
    before: str = "",
    program: str = COMMAND_LINE,
    env: dict[str, str] | None = None,
) -> Started:
    """Start a command; `before` is code that its process runs first, `program` one that it runs instead."""
    server = _warm()
    assert server.stdin
    assert server.stdout
    folder = tempfile.TemporaryDirectory()
    files = {name: str(Path(folder.name) / name) for name in ("stdin", "stdout", "stderr")}
    for name, file in files.items():
        Path(file).write_text(stdin if name == "stdin" else "")
    files["code"] = str(Path(folder.name) / "code")
    job: dict[str, Any] = {
        "words": list(map(str, words)),
        "env": {**os.environ, **(env or {})},
        "before": before,
        "program": program,
        **files,
    }
    server.stdin.write(json.dumps(job) + "\n")
    server.stdin.flush()
    return Started(int(server.stdout.readline()), folder, job["words"])


def manyheads(
    *words: str | Path, stdin: str = "", env: dict[str, str] | None = None, before: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. With `env`, in a process started from nothing, since some of it is read at import."""
    if env is None:
        return start(*words, stdin=stdin, before=before).wait()
    return subprocess.run(
        [sys.executable, "-m", "manyheads", *map(str, words)],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=300,
        check=False,
    )


def start_two(*words: str | Path, program: str = COMMAND_LINE) -> list[Started]:
    """Two processes of one training, which find each other by the environment that torchrun would give them."""
    common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    common["OMP_NUM_THREADS"] = "1"
    processes = []
    for rank in ("0", "1"):
        processes.append(start(*words, program=program, env={**common, "RANK": rank, "LOCAL_RANK": rank}))
    return processes


def wait_for_two(processes: list[Started]) -> subprocess.CompletedProcess[str]:
    """What both of them said. As under torchrun, one that fails takes the other with it."""
    until = time.monotonic() + SECONDS_OF_TWO
    while not any(process.has_failed() for process in processes) and time.monotonic() < until:
        if all(process.has_ended() for process in processes):
            break
        time.sleep(0.005)
    until = time.monotonic() + SECONDS_TO_FAIL_TOO
    while not all(process.has_ended() for process in processes) and time.monotonic() < until:
        time.sleep(0.005)
    for process in processes:
        if not process.has_ended():
            process.kill(signal.SIGKILL)
    results = [process.wait() for process in processes]
    failures = [result.returncode for result in results if result.returncode]
    stdout, stderr = "".join(result.stdout for result in results), "".join(result.stderr for result in results)
    return subprocess.CompletedProcess(results[0].args, failures[0] if failures else 0, stdout, stderr)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def check_refused(result: subprocess.CompletedProcess[str], *expected: str) -> None:
    """One clear message, no traceback, exit code 2."""
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.count("error:") == 1
    for words in expected:
        assert words in result.stderr, f"{words!r} not in:\n{result.stderr}"
