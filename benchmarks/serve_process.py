"""A server in a process of its own: started, waited for, stopped. One torch thread, as every subject has."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from serve_load import process_tree

START_SECONDS = 300.0
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
NO_HUB = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}


class ServerProcess:
    """`command`, in which PORT stands for a free one; ready when `ready_path` is answered with 200."""

    def __init__(self, command: Sequence[str], ready_path: str, log: Path) -> None:
        self.port = free_port()
        self.ready_path, self.log = ready_path, log
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [part.replace("PORT", str(self.port)) for part in command],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **ONE_THREAD, **NO_HUB},
                start_new_session=True,  # with its children it is one group, that is ended together
            )

    @property
    def id(self) -> int:
        return self._process.pid

    def wait(self) -> None:
        """Until it is ready; a RuntimeError with the end of its log if it never is."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._is_ready():
                return
            time.sleep(0.2)
        self.stop()
        raise RuntimeError("\n".join(self.log.read_text().splitlines()[-5:]))

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", self.ready_path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def post(self, path: str, body: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", path, body.encode(), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {content[:200].decode()}")
        return content

    def pause(self) -> None:
        """While others are measured: some servers look for work many times a second."""
        for process in process_tree(self.id):
            process.suspend()

    def resume(self) -> None:
        for process in reversed(process_tree(self.id)):
            process.resume()

    def stop(self) -> None:
        """At first kindly."""
        if self._process.poll() is None:
            self._process.terminate()
            self.resume()  # paused, it would not hear that
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.id, signal.SIGKILL)  # what it left behind
        self._process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
