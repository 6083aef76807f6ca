"""uvicorn around the application: the port, signals, and an end that loses no request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import resource
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from manyheads.errors import UserError
from manyheads.serving.access import Access, ApiKeys, check_binding
from manyheads.serving.app import Service, build_app
from manyheads.serving.limits import Limits, ServerSettings
from manyheads.serving.models import Source

LOGGER = logging.getLogger("manyheads.serve")
SWITCH_SECONDS = 0.0005  # a thread gives way to the event loop so soon; Python's 5 ms would be seen in every tail
HEADER_BYTES = 131_072
LARGEST_READ = 65_536
HEADER_SECONDS = 10.0
OTHER_FILES = 64  # that the process has open beside connections
FEWEST_CONNECTIONS = 10
LAST_SECONDS = 5  # to send the last answers after the queue was given up


class GuardedProtocol(HttpToolsProtocol):
    """Headers have to arrive in time, and have an end: uvicorn itself waits for ever, and reads any number.

    Where there are too many connections an idle one gives way to a new one: uvicorn itself counts it against requests,
    and answers them 503 in plain text, health among them.
    """

    _header_bytes = 0
    _header_timer: asyncio.TimerHandle | None = None
    _idle_since: float | None = None  # by loop.time

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.most_connections, self.limit_concurrency = self.limit_concurrency, None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_headers()
        if self.most_connections is not None and len(self.connections) > self.most_connections:
            self._close_longest_idle()
        self._idle_since = self.loop.time()  # it has yet to ask for something

    def _close_longest_idle(self) -> None:
        longest: GuardedProtocol | None = None
        for connection in self.connections:
            if not isinstance(connection, GuardedProtocol) or connection._idle_since is None:
                continue
            if longest is None or longest._idle_since is None or connection._idle_since < longest._idle_since:
                longest = connection
        if longest is not None:
            longest._idle_since = None
            longest.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:  # else it is another request's turn, which came before this answer
            self._idle_since = self.loop.time()

    def _expect_headers(self) -> None:
        self._header_bytes = 0
        self._header_timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_expecting(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def data_received(self, data: bytes) -> None:
        if self._header_timer is not None:
            self._header_bytes += min(len(data), LARGEST_READ)  # the first of a body may come with them
            if self._header_bytes > HEADER_BYTES:
                self.transport.close()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._idle_since = None
        self._stop_expecting()
        self._expect_headers()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_expecting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_expecting()
        super().connection_lost(exc)


class Server(uvicorn.Server):
    """Stops when it is told to: unready first, then what is queued is finished, then exit 0."""

    def __init__(self, config: uvicorn.Config, service: Service, unready_seconds: float) -> None:
        super().__init__(config)
        self.service, self.unready_seconds = service, unready_seconds

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().serve(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn's own sends the signal to itself again in the end, so that the exit code would not be 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._reload_keys)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.loop.call_soon_threadsafe(self._begin_to_stop)

    def _begin_to_stop(self) -> None:
        if self.service.stopping:  # told twice
            self._close()
            self.service.encoder.give_up()
            return
        self.service.stopping = True
        self.loop.call_later(self.unready_seconds, self._close)
        drain_seconds = self.service.limits.drain_seconds
        self.loop.call_later(self.unready_seconds + drain_seconds, self.service.encoder.give_up)

    def _close(self) -> None:
        self.should_exit = True

    def _reload_keys(self, sig: int, frame: FrameType | None) -> None:
        try:
            self.service.access.keys.reload()
            LOGGER.info("API keys read again")
        except UserError as fault:
            LOGGER.error("%s The keys stay as they were.", fault)


def serve(sources: Sequence[Source], settings: ServerSettings, limits: Limits) -> None:
    """Serve models until SIGTERM or Ctrl-C."""
    keys = ApiKeys(settings.keys_file)
    check_binding(settings.host, keys)
    listening = _bind(settings)
    service = Service(sources, limits, Access(keys, settings.host, settings.cors), settings.log_texts)
    config = uvicorn.Config(
        build_app(service),
        http=GuardedProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=_most_connections(limits),
        timeout_graceful_shutdown=math.ceil(limits.drain_seconds) + LAST_SECONDS,
        timeout_keep_alive=75,
        ws="none",
        lifespan="on",
    )
    host, port = listening.getsockname()[:2]
    LOGGER.info("serving at http://%s:%d", f"[{host}]" if ":" in host else host, port)
    switch_seconds = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        Server(config, service, settings.unready_seconds).run(sockets=[listening])
    finally:
        sys.setswitchinterval(switch_seconds)
        listening.close()


def _most_connections(limits: Limits) -> int:
    """One for each request that may be open, as far as the system lets a process have files."""
    files = limits.open_requests + OTHER_FILES
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY:
        files = min(files, most)
    if allowed != resource.RLIM_INFINITY and allowed < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    return max(FEWEST_CONNECTIONS, files - OTHER_FILES)


def _bind(settings: ServerSettings) -> socket.socket:
    """Before anything is loaded."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as fault:
        location = f"{settings.host}:{settings.port}"
        message = f"cannot listen at {location} ({fault.strerror}); choose another --port or --host."
        raise UserError(f"serve: {message}", code="cannot-listen") from None
