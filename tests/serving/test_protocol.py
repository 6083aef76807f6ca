"""What clients do with a connection before and around their requests."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest

from held_encoder import wait_until
from running_server import RunningServer

H2C = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAA\r\n"

# a system that takes less into its own buffers than the server has to say
SHORT_PATIENCE = """
import functools, socket
import manyheads.serving.limits as limits
limits.Limits = functools.partial(limits.Limits, reading_seconds=1.0)
quick = socket.create_server
def create_server(*given, **options):
    listening = quick(*given, **options)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
    return listening
socket.create_server = create_server
"""


@pytest.fixture(scope="module")
def server(saved_model: Path) -> Iterator[RunningServer]:
    with RunningServer(saved_model, before=SHORT_PATIENCE) as running:
        yield running
        assert running.predict("a film")  # after all of it


class Connection:
    """One that sends what it is told to, byte for byte."""

    def __init__(self, server: RunningServer, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(20)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", server.port))

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.socket.sendall(piece)

    def read_answer(self) -> tuple[HTTPResponse, bytes]:
        response = HTTPResponse(self.socket)
        response.begin()
        return response, response.read()


def predict_head(headers: str) -> bytes:
    host = "Host: 127.0.0.1\r\nContent-Type: application/json"
    return f"POST /v1/predict HTTP/1.1\r\n{host}\r\n{headers}\r\n".encode()


def predict(text: str, headers: str = "") -> bytes:
    body = json.dumps({"inputs": text}).encode()
    return predict_head(f"{headers}Content-Length: {len(body)}\r\n") + body


def predict_in_chunks(text: str, headers: str = "") -> bytes:
    body = json.dumps({"inputs": text}).encode()
    chunks = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (5, body[:5], len(body) - 5, body[5:])
    return predict_head(f"{headers}Transfer-Encoding: chunked\r\n") + chunks


@pytest.mark.parametrize("write", [predict, predict_in_chunks])
def test_an_offer_of_http_2_is_passed_over(server: RunningServer, write: Callable[[str, str], bytes]) -> None:
    """As Java's client and `curl --http2` make it."""
    with Connection(server) as connection:
        for _ in range(2):
            connection.send(write("a film", H2C))
            response, body = connection.read_answer()
            assert response.status == 200, body
            assert json.loads(body)["usage"]["inputs"] == 1
        connection.send(write("a film"))
        assert connection.read_answer()[0].status == 200


def test_an_offer_of_http_2_in_pieces(server: RunningServer) -> None:
    request = predict("a film", H2C)
    with Connection(server) as connection:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.send(*(request[place : place + 7] for place in range(0, len(request), 7)))
        assert connection.read_answer()[0].status == 200


def test_an_offer_leaves_the_rest_of_the_head_as_it_is(server: RunningServer) -> None:
    with Connection(server) as connection:
        connection.send(predict("a film", "X-Request-Id: an-offer\r\nUpgrade: h2c\r\nConnection: Upgrade, close\r\n"))
        response, _ = connection.read_answer()
        assert response.status == 200
        assert response.headers["X-Request-Id"] == "an-offer"
        assert connection.socket.recv(1) == b""


def test_many_offers_at_once(server: RunningServer) -> None:
    """More than Python's stack is deep."""
    offers = 1_200
    question = b"GET /v2/health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    with Connection(server) as connection:
        connection.send(question * offers)
        answers = b""
        while answers.count(b"HTTP/1.1 200") < offers:
            piece = connection.socket.recv(65_536)
            assert piece, answers[-1_000:]
            answers += piece


def test_an_answer_comes_in_one_piece(server: RunningServer) -> None:
    """A client would wake twice for it, and the system would be called twice."""
    with Connection(server) as connection:
        for _ in range(20):
            connection.send(predict("a film"))
            head, _, body = connection.socket.recv(65_536).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert json.loads(body)["usage"]["inputs"] == 1


def test_a_tunnel_is_refused(server: RunningServer) -> None:
    for target in (b"127.0.0.1:80", b"/v1/models"):
        with Connection(server) as connection:
            connection.send(b"CONNECT %b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % target)
            assert connection.read_answer()[0].status == 400


def embed(headers: str = "") -> bytes:
    """The answer has about 600 kB."""
    body = json.dumps({"input": ["a film"] * 1000}).encode()
    head = "POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


def answered_embeddings(server: RunningServer) -> float:
    return server.figure("manyheads_requests_total", 'endpoint="/v1/embeddings"')


@pytest.mark.slow
@pytest.mark.parametrize("headers", ["", "Connection: close\r\n"])
def test_who_does_not_read_is_given_up(server: RunningServer, headers: str) -> None:
    before = answered_embeddings(server)
    with Connection(server, receive_buffer=4096) as connection:
        connection.send(embed(headers))
        assert connection.socket.recv(12) == b"HTTP/1.1 200"
        assert answered_embeddings(server) == before  # it is under way as long as it is being read
        wait_until(lambda: answered_embeddings(server) == before + 1)
        received = 0
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.socket.recv(65_536):
                received += len(piece)
        assert received < 400_000


@pytest.mark.slow
def test_who_reads_slowly_is_waited_for(server: RunningServer) -> None:
    with Connection(server, receive_buffer=4096) as connection:
        connection.send(embed())
        response = HTTPResponse(connection.socket)
        response.begin()
        body = b""
        while piece := response.read(30_000):
            body += piece
            time.sleep(0.1)
    assert len(json.loads(body)["data"]) == 1000


@pytest.mark.slow
def test_who_does_not_read_does_not_keep_the_server(saved_model: Path) -> None:
    server = RunningServer(saved_model, before=SHORT_PATIENCE)
    server.wait_until_ready()
    server.client.close()
    with Connection(server, receive_buffer=4096) as connection:
        connection.send(embed("Connection: close\r\n"))
        assert connection.socket.recv(12) == b"HTTP/1.1 200"
        began = time.monotonic()
        server.started.kill(signal.SIGTERM)
        assert server.started.wait().returncode == 0
        assert time.monotonic() - began < 15  # and not the 35 that requests have


def test_who_leaves_with_many_questions_open_is_forgotten(server: RunningServer) -> None:
    """The fixture sees that nothing failed."""
    with Connection(server, receive_buffer=4096) as connection:
        connection.send(embed() * 20)
        assert connection.socket.recv(12) == b"HTTP/1.1 200"
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # at once
    assert server.predict("a film")


def test_headers_have_an_end(server: RunningServer) -> None:
    """In however large pieces they are read."""
    with Connection(server) as connection:
        with contextlib.suppress(ConnectionError):
            connection.send(
                b"GET /v2/health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X-Filler: a\r\n" * 12_000, b"\r\n"
            )
        with contextlib.suppress(ConnectionResetError):
            assert connection.socket.recv(12) == b""


def test_a_body_that_comes_with_its_headers_does_not_count_as_headers(server: RunningServer) -> None:
    with Connection(server) as connection:
        connection.send(predict("a film " * 60_000))
        assert connection.read_answer()[0].status == 200


def test_the_end_of_the_headers_may_come_in_two_pieces(server: RunningServer) -> None:
    head, body = predict("a film " * 60_000).split(b"\r\n\r\n")
    with Connection(server) as connection:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.send(head + b"\r\n\r", b"\n" + body)
        assert connection.read_answer()[0].status == 200


@pytest.mark.parametrize(
    "nonsense", [b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"CONNECT a:80 HTTP/1.1\r\n\r\n"]
)
def test_what_is_not_http_is_refused_as_json(server: RunningServer, nonsense: bytes) -> None:
    before = server.figure("manyheads_requests_total", 'status="400"')
    with Connection(server) as connection:
        connection.send(nonsense)
        response, body = connection.read_answer()
        assert response.status == 400
        assert response.headers["Content-Type"] == "application/json"
        assert response.headers["Connection"] == "close"
        content = json.loads(body)
        assert content["error"]["code"] == "bad-http"
        assert content["id"] == response.headers["X-Request-Id"] != ""
    assert server.figure("manyheads_requests_total", 'status="400"') == before + 1


@pytest.mark.parametrize("path", ["/", "/v2/health/live", "/v2/health/ready"])
def test_head_is_get_without_a_body(server: RunningServer, path: str) -> None:
    got, head = server.client.get(path), server.client.head(path)
    assert head.status_code == 200
    assert head.content == b""
    for name in ("Content-Length", "Content-Type"):
        assert head.headers[name] == got.headers[name]
    assert server.client.head("/v1/predict").status_code == 405
