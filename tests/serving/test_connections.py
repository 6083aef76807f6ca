"""More connections and requests than a server takes: refused like everything else, and never its health."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from held_encoder import wait_until
from running_server import RunningServer

pytestmark = pytest.mark.slow

PATIENT = """
import functools
import manyheads.serving.limits as limits
limits.Limits = functools.partial(limits.Limits, arrival_seconds=300.0)
"""
FEW_FILES = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))"


@contextlib.contextmanager
def connections(server: RunningServer, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as opened:
        yield [opened.enter_context(connect(server)) for _ in range(count)]


def connect(server: RunningServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def ask_live(connection: socket.socket) -> bytes:
    connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    answer = b""
    while b"}" not in answer and (piece := connection.recv(10_000)):
        answer += piece
    return answer


@pytest.mark.parametrize(
    ("options", "before"), [(["--requests", "8"], ""), ([], FEW_FILES)], ids=["few requests", "few files"]
)
def test_idle_connections_give_way(saved_model: Path, options: list[str], before: str) -> None:
    with RunningServer(saved_model, *options, before=before) as server, contextlib.ExitStack() as opened:
        idle: list[socket.socket] = []
        for _ in range(150):
            idle.append(opened.enter_context(connect(server)))
            answer = ask_live(idle[-1])
            assert b" 200 " in answer.partition(b"\r\n")[0], answer
        assert server.predict("a film")
        assert idle[0].recv(10) == b""  # idle for longest: closed for the others
        assert b" 200 " in ask_live(idle[-1])
        with connections(server, 150):  # that ask for nothing
            assert b" 200 " in ask_live(opened.enter_context(connect(server)))
            assert server.predict("a film")


def test_requests_over_the_limit_are_refused_as_json_and_health_is_not(saved_model: Path) -> None:
    with RunningServer(saved_model, "--requests", "8", before=PATIENT) as server, contextlib.ExitStack() as opened:
        head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
        for _ in range(26):  # twice as many and ten
            waiting = opened.enter_context(connect(server))
            waiting.sendall(f"{head}Content-Length: 100\r\nExpect: 100-continue\r\n\r\n".encode())
            assert b" 100 " in waiting.recv(100)  # its body is waited for, and does not come
        refused = server.post("/v1/predict", {"inputs": "a film"})
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "too-many-requests"
        assert int(refused.headers["retry-after"]) >= 1
        assert server.client.get("/v1/models").status_code == 429
        assert server.client.get("/v2/health/live").json() == {"live": True}
        assert server.client.get("/v2/health/ready").status_code == 200
        opened.close()
        wait_until(lambda: server.post("/v1/predict", {"inputs": "a film"}).status_code == 200)
