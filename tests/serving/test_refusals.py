"""Whatever is sent: a 4xx with one sentence, and nothing of it that could break the answer."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from running_server import RunningServer

JSON = {"content-type": "application/json"}
DEEP = b'{"inputs": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
BODIES: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", 400),
    "not JSON": (b"inputs=a", 400),
    "half of it": (b'{"inputs": ["a"', 400),
    "two values": (b'{"inputs": "a"} {"inputs": "b"}', 400),
    "not UTF-8": (b'{"inputs": "\xff\xfe"}', 400),
    "UTF-16": ('{"inputs": "a"}'.encode("utf-16"), 400),
    "NaN": (b'{"inputs": "a", "timeout_ms": NaN}', 400),
    "Infinity": (b'{"inputs": "a", "timeout_ms": -Infinity}', 400),
    "a float without end": (b'{"inputs": "a", "timeout_ms": 1e999}', 400),
    "a number of 10,000 digits": (b'{"inputs": "a", "timeout_ms": ' + b"9" * 10_000 + b"}", 400),
    "a key twice": (b'{"inputs": "a", "inputs": "b"}', 400),
    "a key twice inside": (b'{"inputs": [{"a": "x", "a": "y"}]}', 400),
    "deep nesting": (DEEP, 400),
    "a list": (b'["a"]', 422),
    "a string": (b'"a"', 422),
    "null": (b"null", 422),
    "no inputs": (b"{}", 422),
    "no input": (b'{"inputs": []}', 422),
    "a number": (b'{"inputs": 3}', 422),
    "numbers": (b'{"inputs": [1, 2]}', 422),
    "true": (b'{"inputs": [true]}', 422),
    "null inside": (b'{"inputs": [null]}', 422),
    "three sides": (b'{"inputs": [["a", "b", "c"]]}', 422),
    "an empty row": (b'{"inputs": [{}]}', 422),
    "a row of other columns": (b'{"inputs": [{"<b>": "x"}]}', 422),
    "an empty text": (b'{"inputs": ["  "]}', 422),
    "a lone surrogate": (b'{"inputs": ["a \\ud800 b"]}', 422),
    "a lone surrogate as task": (b'{"inputs": "a", "tasks": ["\\udfff"]}', 422),
    "a lone surrogate as model": (b'{"inputs": "a", "model": "\\udfff"}', 404),
    "an unknown key": (b'{"inputs": "a", "\\ud800": 1}', 422),
    "an unknown task": (b'{"inputs": "a", "tasks": ["sentiment"]}', 422),
    "no task": (b'{"inputs": "a", "tasks": []}', 422),
    "a task that takes pairs": (b'{"inputs": "a", "tasks": ["near"]}', 422),
    "a timeout of text": (b'{"inputs": "a", "timeout_ms": "5"}', 422),
    "a timeout below 1": (b'{"inputs": "a", "timeout_ms": 0}', 422),
    "a timeout of years": (b'{"inputs": "a", "timeout_ms": 99999999999}', 422),
    "explain as a number": (b'{"inputs": "a", "explain": 1}', 422),
    "600,000 tasks": (b'{"inputs": "a", "tasks": [' + b"1," * 600_000 + b"1]}", 422),
    "100,000 unknown keys": (json.dumps({f"key {number}": 1 for number in range(100_000)}).encode(), 422),
    "a task of a million letters": (json.dumps({"inputs": "a", "tasks": ["x" * 1_000_000]}).encode(), 422),
    "too many to explain": (json.dumps({"inputs": ["a"] * 9, "explain": True}).encode(), 413),
    "too many inputs": (json.dumps({"inputs": ["a"] * 1001}).encode(), 413),
    "too large": (b'{"inputs": "' + b"a" * 2_000_000 + b'"}', 413),
}


@pytest.fixture(scope="module")
def server(saved_model: Path) -> Iterator[RunningServer]:
    with RunningServer(saved_model) as running:
        yield running
        assert running.predict("a film")  # after all of it


def check_refused(response: httpx.Response, status: int) -> None:
    assert response.status_code == status, response.text
    content = json.loads(response.content)
    assert set(content) == {"error", "id"}
    assert set(content["error"]) == {"code", "message"}
    message = content["error"]["message"]
    assert message[-1] in ".…"
    for secret in ("Traceback", "/tmp", "site-packages", "pydantic", "fastapi", "orjson"):
        assert secret not in response.text


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
def test_a_body(server: RunningServer, name: str) -> None:
    body, status = BODIES[name]
    began = time.monotonic()
    check_refused(server.client.post("/v1/predict", content=body, headers=JSON), status)
    assert time.monotonic() - began < 5  # nothing strange holds the event loop


KNOWN = " Known: inputs, tasks, model, timeout_ms, explain."
CUT = "k" * 100 + "…"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"inputs": "a", "\\ud800": 1}', f"A key has half of a surrogate pair, which is no text.{KNOWN}"),
        (b'{"inputs": "a", "": 1}', f"Unknown key: an empty one, or one with unprintable characters.{KNOWN}"),
        (b'{"inputs": "a", "a\\u202e": 1}', f"Unknown key: an empty one, or one with unprintable characters.{KNOWN}"),
        (json.dumps({"inputs": "a", "k" * 5000: 1}).encode(), f"Unknown key '{CUT}'.{KNOWN}"),
        (json.dumps({"inputs": "a", "model": "k" * 5000}).encode(), f"No model '{CUT}'; there is best."),
        (
            json.dumps({"inputs": "a", "tasks": ["k" * 5000]}).encode(),
            f"tasks: no task '{CUT}'. Known: length, mood, near, same, topics.",
        ),
    ],
    ids=["a lone surrogate", "an empty key", "an unprintable key", "a long key", "a long model", "a long task"],
)
def test_strange_names_leave_the_message_clear(server: RunningServer, body: bytes, message: str) -> None:
    response = server.client.post("/v1/predict", content=body, headers=JSON)
    assert response.json()["error"]["message"] == message


@pytest.mark.parametrize(
    ("content", "status"),
    [({"input": [1, 2]}, 422), ({"input": []}, 422), ({"input": "a", "dimensions": 3}, 422), ({"inputs": "a"}, 422)],
)
def test_a_body_of_embeddings(server: RunningServer, content: object, status: int) -> None:
    check_refused(server.post("/v1/embeddings", content), status)


def test_headers(server: RunningServer) -> None:
    body = b'{"inputs": "a"}'
    for headers in ({"content-type": "text/plain"}, {}, JSON | {"content-encoding": "gzip"}):
        check_refused(server.client.post("/v1/predict", content=body, headers=headers), 415)
    check_refused(server.client.get("/v1/predict"), 405)
    check_refused(server.client.get("/v1/nothing"), 404)
    check_refused(server.client.get("/../../etc/passwd"), 404)
    check_refused(server.client.get("/v2/health/live/"), 404)
    assert "server" not in server.client.get("/v2/health/live").headers


def test_nothing_is_read_of_a_body_that_is_said_to_be_too_large(server: RunningServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: 9000000000\r\n\r\n".encode())
        connection.settimeout(10)
        assert b" 413 " in connection.recv(1000).partition(b"\r\n")[0]


@pytest.mark.parametrize(
    ("line", "headers", "status"),
    [
        ("POST /v1/nothing", "", 404),
        ("PUT /v1/predict", "", 405),
        ("POST /v1/predict", "Content-Type: text/plain\r\n", 415),
        ("POST /v1/predict", "Content-Type: application/json\r\nContent-Encoding: gzip\r\n", 415),
        ("POST /v1/predict", "Origin: https://evil.example\r\n", 403),
        ("GET /v2/health/live", "", 200),
    ],
)
@pytest.mark.parametrize("length", ["Content-Length: 9000000000", "Transfer-Encoding: chunked"])
def test_a_body_that_nobody_wants_is_not_read(
    server: RunningServer, line: str, headers: str, status: int, length: str
) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        head = f"{line} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{headers}{length}\r\n\r\n"
        connection.sendall(head.encode())
        connection.settimeout(10)
        answer = connection.recv(10_000)
        while answer and (piece := connection.recv(10_000)):  # to its end: the server has closed the connection
            answer += piece
    assert f" {status} ".encode() in answer.partition(b"\r\n")[0]
    assert b"\r\nconnection: close\r\n" in answer.lower()


def test_a_connection_whose_body_was_read_goes_on(server: RunningServer) -> None:
    for content, status in ((b'{"inputs": 3}', 422), (b'{"inputs": "a"}', 200), (b"", 400)):
        response = server.client.post("/v1/predict", content=content, headers=JSON)
        assert response.status_code == status
        assert "connection" not in response.headers


@pytest.mark.slow
def test_a_body_and_headers_that_do_not_arrive(server: RunningServer) -> None:
    """Both at once: each is waited for ten seconds."""
    address = ("127.0.0.1", server.port)
    with socket.create_connection(address) as without_body, socket.create_connection(address) as without_headers:
        head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
        without_body.sendall(f'{head}Content-Length: 100\r\n\r\n{{"inputs"'.encode())
        without_headers.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        began = time.monotonic()
        without_body.settimeout(20)
        without_headers.settimeout(20)
        assert b" 408 " in without_body.recv(1000).partition(b"\r\n")[0]
        assert without_headers.recv(1000) == b""
        assert 9 < time.monotonic() - began < 15
        assert server.predict("a film")


@pytest.mark.slow
def test_long_inputs_are_refused_where_that_is_asked_for(saved_model: Path) -> None:
    with RunningServer(saved_model, "--refuse-long") as server:
        response = server.post("/v1/predict", {"inputs": ["a"] * 70 + ["a good film " * 600]})
        check_refused(response, 413)
        assert "input 71:" in response.text
        check_refused(server.post("/v1/predict", {"inputs": ["a", "x" * 200_000]}), 413)  # one token, and not read
        assert server.predict("a film")


@pytest.mark.slow
def test_a_full_queue_turns_away_and_says_when_to_come_again(saved_model: Path) -> None:
    slow = "import manyheads.inference.torch_requests as r, time\nquick = r.answer\n"
    slow += "def answer(model, prepared):\n    time.sleep(0.2)\n    return quick(model, prepared)\nr.answer = answer"
    with RunningServer(saved_model, "--queue-tokens", "30", before=slow) as server:

        def ask(_: int) -> httpx.Response:
            return server.post("/v1/predict", {"inputs": "a good film with words and no end"})

        with ThreadPoolExecutor(24) as clients:
            responses = list(clients.map(ask, range(48)))
        statuses = {response.status_code for response in responses}
        assert statuses == {200, 429}
        for response in responses:
            if response.status_code == 429:
                check_refused(response, 429)
                assert int(response.headers["retry-after"]) >= 1
        late = server.post("/v1/predict", {"inputs": ["a film"] * 200, "timeout_ms": 50})
        check_refused(late, 504)
        assert server.predict("a film")


@pytest.mark.slow
def test_too_many_requests_at_once_are_turned_away_before_connections_are_closed(saved_model: Path) -> None:
    slow = "import manyheads.inference.torch_requests as r, time\nquick = r.answer\n"
    slow += "def answer(model, prepared):\n    time.sleep(0.5)\n    return quick(model, prepared)\nr.answer = answer"
    with RunningServer(saved_model, "--requests", "8", before=slow) as server:
        with ThreadPoolExecutor(16) as clients:
            responses = list(clients.map(lambda _: server.post("/v1/predict", {"inputs": "a"}), range(16)))
        statuses = [response.status_code for response in responses]
        assert set(statuses) == {200, 429}
        assert statuses.count(200) >= 8
        assert server.predict("a film")  # those that are answered are no longer counted


@pytest.mark.slow
def test_deadlines_are_met_or_said(server: RunningServer) -> None:
    def ask(number: int) -> int:
        texts = [f"a film {number} {text}" for text in range(20)]
        status: int = server.post("/v1/predict", {"inputs": texts, "timeout_ms": 1 + number % 40}).status_code
        return status

    with ThreadPoolExecutor(16) as clients:
        statuses = set(clients.map(ask, range(200)))
    assert statuses <= {200, 504}
    assert 504 in statuses


def test_headers_have_to_end(server: RunningServer) -> None:
    closed = False
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        connection.settimeout(5)  # less than what slow headers have
        try:
            for _ in range(1000):
                connection.sendall(b"x-padding: " + b"x" * 8000 + b"\r\n")
            closed = connection.recv(1000) == b""
        except ConnectionError:
            closed = True
    assert closed


def test_a_long_text_is_explained_as_far_as_it_is_read(server: RunningServer) -> None:
    began = time.monotonic()
    [described] = server.predict(["film " * 60_000], tasks=["mood"], explain=True)["predictions"]
    assert described["truncated"]
    assert len(described["tasks"]["mood"]["words"]) < 600
    assert time.monotonic() - began < 10
