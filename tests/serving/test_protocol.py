"""What clients do with a connection before and around their requests."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest

from running_server import RunningServer

H2C = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAA\r\n"


@pytest.fixture(scope="module")
def server(saved_model: Path) -> Iterator[RunningServer]:
    with RunningServer(saved_model) as running:
        yield running
        assert running.predict("a film")  # after all of it


class Connection:
    """One that sends what it is told to, byte for byte."""

    def __init__(self, server: RunningServer) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=20)

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


def test_a_tunnel_is_refused(server: RunningServer) -> None:
    for target in (b"127.0.0.1:80", b"/v1/models"):
        with Connection(server) as connection:
            connection.send(b"CONNECT %b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % target)
            assert connection.read_answer()[0].status == 400
