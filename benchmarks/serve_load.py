"""Clients of an HTTP server, in a process of their own: HTTP/1.1 over plain streams, so that they cost little.

    python benchmarks/serve_load.py < load.json > measured.json

`run_load` starts it. A closed loop: every client sends its next request when the last is answered, for so many
seconds, or until so many requests are answered. An open loop: requests come at a rate, whether others are answered
or not.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from itertools import cycle

import psutil
import uvloop

ANSWER_SECONDS = 60.0  # a request that is not answered by then is an error
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Load:
    """What is sent, by how many, and for how long."""

    port: int
    server: int  # its process id: what it costs is counted, with that of its children
    method: str
    path: str
    bodies: list[str]  # sent in turn
    clients: int = 1  # of a closed loop
    seconds: float = 0.0
    warm_up: float = 0.0  # seconds that are not counted
    requests: int = 0  # of a closed loop, instead of seconds
    rate: float = 0.0  # requests/s of an open loop, instead of clients


@dataclass
class Measured:
    """What became of the requests that were answered, after the warm-up."""

    seconds: float = 0.0
    statuses: dict[str, int] = field(default_factory=dict)  # status, or the name of an exception → requests
    latencies: list[float] = field(default_factory=list)  # seconds of those that were answered with 200
    first_refusal: float | None = None  # seconds until the first 429
    connections: int = 0  # that were opened
    server_cpu: float = 0.0  # seconds
    client_cpu: float = 0.0
    megabytes_before: float = 0.0  # resident, of the server
    megabytes_after: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    @property
    def errors(self) -> int:
        return sum(self.statuses.values()) - self.statuses.get("200", 0)

    def percentile(self, percent: float) -> float:
        """Seconds; not a number where nothing was answered."""
        if not self.latencies:
            return float("nan")
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def run_load(load: Load) -> Measured:
    """In another process."""
    finished = subprocess.run(
        [sys.executable, __file__], input=json.dumps(asdict(load)), stdout=subprocess.PIPE, text=True, check=True
    )
    return Measured(**json.loads(finished.stdout))


class Clients:
    """All clients of a load."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.requests = cycle([request_of(load, body.encode()) for body in load.bodies])
        self.measured = Measured()
        self.left = load.requests
        self.counting = False
        self.counting_since = 0.0
        self.idle: list[Connection] = []  # of an open loop

    async def run(self) -> Measured:
        if self.load.rate:
            await self._open_loop()
        else:
            await self._closed_loop()
        return self.measured

    # --- closed loop -------------------------------------------------------------------------------------------------

    async def _closed_loop(self) -> None:
        clients = [asyncio.create_task(self._client()) for _ in range(self.load.clients)]
        await asyncio.sleep(self.load.warm_up)
        self._begin()
        if self.load.requests:
            await asyncio.gather(*clients)
            self._end()
            return
        await asyncio.sleep(self.load.seconds)
        self._end()
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    async def _client(self) -> None:
        connection: Connection | None = None
        while not self.load.requests or self.left:
            self.left -= 1
            connection = await self._send(connection)
            if connection is None:
                await asyncio.sleep(0.1)  # a server that is gone is not asked as fast as it goes

    # --- open loop ---------------------------------------------------------------------------------------------------

    async def _open_loop(self) -> None:
        """Evenly, and all that is due at once where this process came late."""
        under_way: set[asyncio.Task[None]] = set()
        self._begin()
        sent = 0
        while (passed := time.perf_counter() - self.counting_since) < self.load.seconds:
            for _ in range(int(passed * self.load.rate) - sent):
                task = asyncio.create_task(self._send_with_any())
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                sent += 1
            await asyncio.sleep(0.001)
        await asyncio.gather(*under_way)
        self._end()

    async def _send_with_any(self) -> None:
        connection = await self._send(self.idle.pop() if self.idle else None)
        if connection is not None:
            self.idle.append(connection)

    # --- both --------------------------------------------------------------------------------------------------------

    async def _send(self, connection: Connection | None) -> Connection | None:
        """Send the next request. The connection that may be used again, if there is one."""
        request = next(self.requests)
        began = time.perf_counter()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                if connection is None:
                    connection = await asyncio.open_connection("127.0.0.1", self.load.port)
                    self.measured.connections += 1
                status = await _exchange(connection, request)
        except (OSError, EOFError, TimeoutError) as fault:
            self._count(type(fault).__name__, began)
            if connection is not None:
                connection[1].close()
            return None
        self._count(status, began)
        return connection

    def _count(self, outcome: str, began: float) -> None:
        if not self.counting:
            return
        now = time.perf_counter()
        self.measured.statuses[outcome] = self.measured.statuses.get(outcome, 0) + 1
        if outcome == "200":
            self.measured.latencies.append(now - began)
        elif outcome == "429" and self.measured.first_refusal is None:
            self.measured.first_refusal = now - self.counting_since

    def _begin(self) -> None:
        self.measured.megabytes_before = resident_megabytes(self.load.server)
        self.measured.server_cpu = -cpu_seconds(self.load.server)
        self.measured.client_cpu = -time.process_time()
        self.counting_since = time.perf_counter()
        self.counting = True

    def _end(self) -> None:
        self.counting = False
        self.measured.seconds = time.perf_counter() - self.counting_since
        self.measured.client_cpu += time.process_time()
        self.measured.server_cpu += cpu_seconds(self.load.server)
        self.measured.megabytes_after = resident_megabytes(self.load.server)


def request_of(load: Load, body: bytes) -> bytes:
    """All that is sent, so that one call sends it."""
    lines = [f"{load.method} {load.path} HTTP/1.1", f"Host: 127.0.0.1:{load.port}"]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _exchange(connection: Connection, request: bytes) -> str:
    """The status of the answer, all of which is read."""
    reader, writer = connection
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    _, _, after = head.partition(b"content-length:")
    if not after:
        raise ConnectionError("an answer without content-length")
    await reader.readexactly(int(after.partition(b"\r\n")[0]))
    return head[9:12].decode()


def process_tree(process_id: int) -> list[psutil.Process]:
    process = psutil.Process(process_id)
    return [process, *process.children(recursive=True)]


def cpu_seconds(process_id: int) -> float:
    seconds = 0.0
    for process in process_tree(process_id):
        times = process.cpu_times()
        seconds += times.user + times.system
    return seconds


def resident_megabytes(process_id: int) -> float:
    """Pages that several processes share are counted once for each."""
    return sum(process.memory_info().rss for process in process_tree(process_id)) / 1e6


def main() -> None:
    load = Load(**json.load(sys.stdin))
    measured = uvloop.run(Clients(load).run())
    json.dump(asdict(measured), sys.stdout)


if __name__ == "__main__":
    main()
