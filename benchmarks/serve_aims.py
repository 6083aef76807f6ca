"""What the server is to reach: how little it adds to the bare predictor, and how little further heads cost."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from statistics import median

from apart import Apart
from serve_load import Load, Measured, cpu_seconds, request_of, run_load
from serve_offline import AllAtOnce, OneByOne
from serve_subjects import Subject
from serve_tables import p99, quotient, rate, server_cpu
from train import spread

NO_OP_PATH, NO_OP_CLIENTS = "/v2/health/live", 32
BUSY_CLIENTS = 128
ONE_BY_ONE_TEXTS = 200
ADDED = "ms that HTTP adds to one text, median over texts of the difference"
ADDED_CPU = "CPU ms that HTTP adds to one text, mean"
BARE = "bare predictor, ms of one text"
NO_OP = f"p99 ms of a request for nothing, {NO_OP_CLIENTS} clients"
SERVED = f"requests/s with {BUSY_CLIENTS} clients ÷ texts/s offline"
SERVED_CPU = f"CPU of a request with {BUSY_CLIENTS} clients ÷ CPU of a text offline"
HEADS = f"time of eight heads ÷ one head's, {BUSY_CLIENTS} clients"
HEADS_SINGLE = "time of eight heads ÷ one head's, one client, median over texts"
AIMS = {ADDED: "≤ 0.5", SERVED: "≥ 0.90", HEADS: "≤ 1.10", HEADS_SINGLE: "≤ 1.10"}
Aims = dict[str, list[float]]  # what → what was measured in each turn


class OneClient:
    """Asks a server one text after the other, over one connection: plain, so that the client's own time is small."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.load = Load(subject.server.port, subject.server.id, "POST", subject.path, [])
        self.connection = socket.create_connection(("127.0.0.1", subject.server.port), timeout=60)

    def __enter__(self) -> OneClient:
        self.subject.server.resume()
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        self.subject.server.pause()

    def ask(self, text: str) -> float:
        """Seconds until the answer is there."""
        (body,) = self.subject.bodies([text])
        request = request_of(self.load, body.encode())
        began = time.perf_counter()
        self.connection.sendall(request)
        answer = b""
        while not _is_whole(answer):
            received = self.connection.recv(65_536)
            if not received:
                raise RuntimeError(f"{self.subject.name} closed the connection")
            answer += received
        seconds = time.perf_counter() - began
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{self.subject.name} answered {answer[:100].decode()}")
        return seconds


def _is_whole(answer: bytes) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    return bool(length) and len(body) == int(length)


class AimsBench:
    """One head, eight heads, and the model of one head without a server."""

    def __init__(self, one: Subject, eight: Subject, model_folder: Path, texts: list[str]) -> None:
        self.one, self.eight, self.texts = one, eight, texts
        self.one_by_one = Apart(OneByOne, model_folder)
        self.all_at_once = Apart(AllAtOnce, model_folder)

    def measure(self, turns: int, seconds: float, warm_up: float) -> Aims:
        """All of them in each turn, so that noise hits both sides of a ratio. The first turn warms up."""
        found: Aims = {name: [] for name in (BARE, ADDED, ADDED_CPU, HEADS_SINGLE, NO_OP, SERVED, SERVED_CPU, HEADS)}
        for turn in range(turns + 1):
            measured = {**self._single(), **self._busy(seconds, warm_up), NO_OP: self._no_op(seconds)}
            if turn:
                for name, value in measured.items():
                    found[name].append(value)
        return found

    def stop(self) -> None:
        self.one_by_one.stop()
        self.all_at_once.stop()

    def _single(self) -> dict[str, float]:
        """Text by text in turns, so that a machine that slows down slows all of them."""
        bare: list[float] = []
        added: list[float] = []
        with_eight: list[float] = []
        texts = self.texts[:ONE_BY_ONE_TEXTS]
        self.one_by_one.wait()
        with OneClient(self.one) as one_head, OneClient(self.eight) as eight_heads:
            added_cpu = cpu_seconds(self.one_by_one.id) - cpu_seconds(self.one.server.id)
            for text in texts:
                seconds, over_http = self.one_by_one([text]), one_head.ask(text)
                bare.append(1000 * seconds)
                added.append(1000 * (over_http - seconds))
                with_eight.append(eight_heads.ask(text) / over_http)
            added_cpu += cpu_seconds(self.one.server.id) - cpu_seconds(self.one_by_one.id)
        return {
            BARE: median(bare),
            ADDED: median(added),
            ADDED_CPU: 1000 * added_cpu / len(texts),
            HEADS_SINGLE: median(with_eight),
        }

    def _busy(self, seconds: float, warm_up: float) -> dict[str, float]:
        self.all_at_once.wait()
        offline_cpu = -cpu_seconds(self.all_at_once.id)
        offline = len(self.texts) / self.all_at_once(self.texts)
        offline_cpu += cpu_seconds(self.all_at_once.id)
        served = self.one.load(self.texts, clients=BUSY_CLIENTS, seconds=seconds, warm_up=warm_up)
        with_eight = self.eight.load(self.texts, clients=BUSY_CLIENTS, seconds=seconds, warm_up=warm_up)
        return {
            SERVED: rate(served) / offline,
            SERVED_CPU: server_cpu(served) / (1000 * offline_cpu / len(self.texts)),
            HEADS: quotient(rate(served), rate(with_eight)),
        }

    def _no_op(self, seconds: float) -> float:
        server = self.one.server
        server.resume()
        measured: Measured = run_load(
            Load(server.port, server.id, "GET", NO_OP_PATH, [""], clients=NO_OP_CLIENTS, seconds=seconds, warm_up=0.5)
        )
        server.pause()
        return p99(measured)


def aims_table(aims: Aims) -> list[str]:
    lines = ["| | measured | aim |", "|---|---|---|"]
    for name, values in aims.items():
        lines.append(f"| {name} | {spread(values)} | {AIMS.get(name, '')} |")
    return lines
