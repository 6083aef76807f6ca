"""A server's life: the port before the model, swaps under load, an end that loses no request."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from building import TWO, a_task, toy_model
from held_encoder import HeldEncoder, wait_for_queued_tokens, wait_until
from manyheads.model.folder import save_model
from running_server import RunningServer

pytestmark = pytest.mark.slow

SMALL_PASS = 1024
SMALL_PASSES = f"""
import manyheads.inference.torch_backend as backends
make = backends.TorchBackend.__init__
backends.TorchBackend.__init__ = lambda backend, model, about, _: make(backend, model, about, {SMALL_PASS})
"""

SLOW_LOAD = """
import time
import manyheads.runs.served as models
quick = models.open_predictor
def open_predictor(*given):
    time.sleep(1.5)
    return quick(*given)
models.open_predictor = open_predictor
"""
SLOW_ANSWER = """
import time
import manyheads.inference.torch_requests as requests
quick = requests.answer
def answer(model, prepared):
    time.sleep(0.05)
    return quick(model, prepared)
requests.answer = answer
"""

HELD_SHUTDOWN = """
import time
from pathlib import Path
import uvicorn
quick = uvicorn.Server.shutdown
async def shutdown(server, sockets=None):
    Path({reached!r}).touch()
    while Path({hold!r}).exists():
        time.sleep(0.005)
    await quick(server, sockets)
uvicorn.Server.shutdown = shutdown
"""


class Callers:
    """Threads that ask until they are told to stop, and keep what they were answered."""

    def __init__(self, server: RunningServer, count: int) -> None:
        self.server = server
        self.statuses: list[int] = []
        self.faults: list[Exception] = []
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self._ask) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def _ask(self) -> None:
        with httpx.Client(base_url=self.server.url, timeout=60) as client:
            while not self.stopped.is_set():
                try:
                    self.statuses.append(client.post("/v1/predict", json={"inputs": ["a film", "why ?"]}).status_code)
                except httpx.TransportError as fault:
                    self.faults.append(fault)
                    return

    def stop(self) -> None:
        self.stopped.set()
        for thread in self.threads:
            thread.join()


def test_the_port_is_open_before_the_model_is_loaded(saved_model: Path) -> None:
    with_slow_load = RunningServer(saved_model, before=SLOW_LOAD)
    until = time.monotonic() + 30
    while True:
        try:
            response = with_slow_load.client.get("/v2/health/ready")
            break
        except httpx.TransportError:
            assert time.monotonic() < until
            time.sleep(0.02)
    assert response.status_code == 503
    assert response.json()["error"]["message"] == "The model is being loaded."
    assert with_slow_load.client.get("/v2/health/live").status_code == 200
    assert with_slow_load.post("/v1/predict", {"inputs": "a"}).status_code == 503
    with with_slow_load as server:
        assert server.predict("a film")


def test_a_folder_that_is_no_model_says_so(saved_model: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(saved_model, tmp_path / "broken"))
    (broken / "heads.safetensors").write_bytes(b"nothing")
    server = RunningServer(broken)
    until = time.monotonic() + 30
    reason = ""
    while "could not be loaded" not in reason:
        assert time.monotonic() < until
        time.sleep(0.05)
        try:
            reason = server.client.get("/v2/health/ready").json()["error"]["message"]
        except httpx.TransportError:
            continue
    assert str(tmp_path) not in reason
    shutil.copy(saved_model / "heads.safetensors", broken)  # mended: it is loaded without a restart
    with server:
        assert server.predict("a film")


def test_told_to_stop_it_answers_what_it_has(saved_model: Path, tmp_path: Path) -> None:
    """The encoder is held until the port is closed: not one of the requests is answered before the signal."""
    encoder = HeldEncoder(tmp_path)
    server = RunningServer(saved_model, before=encoder.code)
    server.wait_until_ready()
    with ThreadPoolExecutor(13) as clients:
        encoder.hold()
        requests = [clients.submit(ask, server, ["it is being encoded"])]
        encoder.wait_until_reached()
        for _ in range(12):
            requests.append(clients.submit(ask, server, ["a film"] * 30))
        wait_for_queued_tokens(server, 12 * 30 * 4)
        server.client.close()
        server.started.kill(signal.SIGTERM)
        wait_until(lambda: not is_listening(server))
        assert not any(request.done() for request in requests)
        encoder.release()
        statuses = [request.result() for request in requests]
    ended = server.started.wait()
    assert statuses == [200] * 13
    assert ended.returncode == 0
    assert "Traceback" not in ended.stderr


def test_a_request_in_a_kept_connection_is_answered_at_the_end(saved_model: Path, tmp_path: Path) -> None:
    """It is sent when the server is about to close connections, and has not read from them again."""
    hold, reached = tmp_path / "hold", tmp_path / "reached"
    server = RunningServer(saved_model, before=HELD_SHUTDOWN.format(hold=str(hold), reached=str(reached)))
    server.wait_until_ready()
    server.client.close()
    hold.touch()
    kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    with contextlib.closing(kept):
        kept.request("GET", "/v2/health/live")
        kept.getresponse().read()
        server.started.kill(signal.SIGTERM)
        wait_until(reached.exists)
        kept.request("POST", "/v1/predict", '{"inputs": "a film"}', {"Content-Type": "application/json"})
        hold.unlink()
        response = kept.getresponse()
        assert response.status == 200
        assert response.headers["Connection"] == "close"
    assert server.started.wait().returncode == 0


def test_requests_sent_behind_another_are_answered_at_the_end(saved_model: Path, tmp_path: Path) -> None:
    """In one connection, before the first answer."""
    encoder = HeldEncoder(tmp_path)
    server = RunningServer(saved_model, before=encoder.code)
    server.wait_until_ready()
    server.client.close()
    body = b'{"inputs": "a film"}'
    headers = f"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    encoder.hold()
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall((f"POST /v1/predict HTTP/1.1\r\n{headers}\r\n".encode() + body) * 3)
        encoder.wait_until_reached()
        server.started.kill(signal.SIGTERM)
        wait_until(lambda: not is_listening(server))
        encoder.release()
        answers = connection.makefile("rb").read()  # to the end of the connection
    assert answers.count(b"HTTP/1.1 200 OK") == 3
    assert answers.lower().count(b"connection: close") == 1
    assert server.started.wait().returncode == 0


def ask(server: RunningServer, inputs: list[str]) -> int:
    """In a connection of its own."""
    with httpx.Client(base_url=server.url, timeout=60) as client:
        return client.post("/v1/predict", json={"inputs": inputs}).status_code


def is_listening(server: RunningServer) -> bool:
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", server.port), timeout=10):
        return True
    return False


def test_a_changed_model_is_swapped_without_a_failed_request(toy_encoder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "best"
    save_model(folder, toy_model(toy_encoder, [a_task(name="old", labels=TWO, encoding="single")]), toy_encoder, {})
    with RunningServer(folder) as server:
        callers = Callers(server, 4)
        changed = toy_model(toy_encoder, [a_task(name="new", labels=TWO, encoding="single")])
        save_model(folder, changed, toy_encoder, {})
        until = time.monotonic() + 60
        while list(server.predict("a film")["predictions"][0]["tasks"]) != ["new"]:
            assert time.monotonic() < until
            time.sleep(0.05)
        time.sleep(0.3)
        callers.stop()
    assert not callers.faults
    assert set(callers.statuses) == {200}
    assert len(callers.statuses) > 20


def test_work_of_clients_that_left_is_not_done(saved_model: Path, tmp_path: Path) -> None:
    """All 400 texts are in the queue, and their 100 clients have left, before the encoder goes on."""
    encoder = HeldEncoder(tmp_path)
    body = json.dumps({"inputs": ["a film"] * 4}).encode()
    head = (
        f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    with RunningServer(saved_model, before=encoder.code) as server, ThreadPoolExecutor(1) as clients:
        encoder.hold()
        first = clients.submit(server.predict, "it keeps the encoder busy")
        encoder.wait_until_reached()
        with contextlib.ExitStack() as opened:
            for _ in range(100):
                client = opened.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                client.sendall(f"{head}\r\n\r\n".encode() + body)
            wait_for_queued_tokens(server, 400 * 4)
        wait_until(lambda: server.figure("manyheads_requests_total", 'status="499"') == 100)
        encoder.release()
        first.result()
        server.predict("after them")
        assert server.figure("manyheads_batch_inputs_sum") == 2
        assert server.figure("manyheads_inputs_total", 'outcome="client-left"') == 400
        assert server.figure("manyheads_queued_tokens") == 0


def test_what_is_not_done_in_time_at_the_end_is_said(saved_model: Path) -> None:
    slower = SLOW_ANSWER.replace("0.05", "0.5")
    server = RunningServer(saved_model, "--drain-seconds", "1", "--queue-tokens", "1000000", before=slower)
    server.wait_until_ready()
    with ThreadPoolExecutor(8) as clients:
        texts = [f"a film {number} " * 100 for number in range(60)]
        answers = [clients.submit(server.post, "/v1/predict", {"inputs": texts}) for _ in range(8)]
        time.sleep(1)
        began = time.monotonic()
        server.started.kill(signal.SIGTERM)
        ended = server.started.wait()
        statuses = {answer.result().status_code for answer in answers}
    server.client.close()
    assert time.monotonic() - began < 8
    assert 503 in statuses
    assert statuses <= {200, 503}
    assert ended.returncode == 0
    assert "Traceback" not in ended.stderr


def test_told_twice_it_stops_at_once(saved_model: Path) -> None:
    server = RunningServer(saved_model, "--unready-seconds", "60")
    server.wait_until_ready()
    server.started.kill(signal.SIGTERM)
    until = time.monotonic() + 10
    while server.client.get("/v2/health/ready").status_code == 200:
        assert time.monotonic() < until
        time.sleep(0.02)
    answer = server.post("/v1/predict", {"inputs": "a film"})
    assert answer.status_code == 200  # unready, and still answering
    assert answer.headers["connection"] == "close"  # the next request goes elsewhere
    server.client.close()
    server.started.kill(signal.SIGTERM)
    began = time.monotonic()
    assert server.started.wait().returncode == 0
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("words", [4, 100])
def test_at_most_a_pass_of_a_list_waits(saved_model: Path, tmp_path: Path, words: int) -> None:
    """However many of its inputs are tokenised together."""
    encoder = HeldEncoder(tmp_path)
    with RunningServer(saved_model, before=encoder.code + SMALL_PASSES) as server, ThreadPoolExecutor(2) as clients:
        encoder.hold()
        first = clients.submit(server.predict, "it keeps the encoder busy")
        encoder.wait_until_reached()
        assert server.figure("manyheads_queued_tokens") == 0  # what is being encoded does not wait
        texts = [f"film {number} " * (words // 2) for number in range(500)]
        long_list = clients.submit(server.predict, texts, tasks=["mood"])
        wait_until(lambda: server.figure("manyheads_queued_tokens") > 0)
        time.sleep(0.2)  # whatever else would be queued is
        assert SMALL_PASS / 2 <= server.figure("manyheads_queued_tokens") <= SMALL_PASS
        encoder.release()
        first.result()
        assert long_list.result()["usage"]["inputs"] == 500


def test_others_get_in_between_a_long_list(saved_model: Path) -> None:
    with (
        RunningServer(saved_model, before=SLOW_ANSWER.replace("0.05", "0.3")) as server,
        ThreadPoolExecutor(1) as client,
    ):
        texts = [f"a film {number} " * 100 for number in range(400)]
        long_list = client.submit(server.post, "/v1/predict", {"inputs": texts, "tasks": ["mood"]})
        time.sleep(0.5)
        began = time.monotonic()
        server.predict("a film", tasks=["mood"])
        assert time.monotonic() - began < 3
        assert not long_list.done()
        assert long_list.result().status_code == 200
