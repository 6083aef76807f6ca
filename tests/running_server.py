"""`manyheads serve` in a process of its own, and a client for it."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx

from command import Started, free_port, start


class RunningServer:
    """A server on a free port; `with` ends it by SIGTERM and checks that it ended well."""

    def __init__(self, *words: str | Path, before: str = "") -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.started: Started = start("serve", *words, "--port", str(self.port), before=before)
        self.client = httpx.Client(base_url=self.url, timeout=60)
        self.ended: subprocess.CompletedProcess[str] | None = None

    def __enter__(self) -> RunningServer:
        self.wait_until_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        if self.ended is None:
            self.stop()
        assert self.ended is not None
        assert self.ended.returncode == 0, self.ended.stderr
        assert "Traceback" not in self.ended.stderr, self.ended.stderr

    def wait_until_ready(self, seconds: float = 60) -> None:
        until = time.monotonic() + seconds
        while True:
            try:
                if self.client.get("/v2/health/ready").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            assert time.monotonic() < until, "the server is not ready"
            time.sleep(0.02)

    def stop(self) -> None:
        self.started.kill(signal.SIGTERM)
        self.ended = self.started.wait()

    def post(self, path: str, content: Any, **headers: str) -> httpx.Response:
        return self.client.post(path, json=content, headers=headers)

    def predict(self, inputs: Any, **options: Any) -> Any:
        response = self.post("/v1/predict", {"inputs": inputs, **options})
        assert response.status_code == 200, response.text
        return response.json()

    def figure(self, name: str, label: str = "") -> float:
        """The sum of a metric over its labels, or over those with `label`, such as 'status="200"'."""
        total = 0.0
        for line in self.client.get("/metrics").text.splitlines():
            if line.partition("{")[0].partition(" ")[0] == name and label in line:
                total += float(line.rpartition(" ")[2])
        return total
