"""uvicorn around the application: the port, signals, and an end that loses no request."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import math
import resource
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

import uvicorn

from manyheads.errors import UserError
from manyheads.serving.access import Access, ApiKeys, check_binding
from manyheads.serving.app import Service, build_app
from manyheads.serving.limits import Limits, ServerSettings
from manyheads.serving.models import Source
from manyheads.serving.protocol import GuardedProtocol

LOGGER = logging.getLogger("manyheads.serve")
# Python's 5 ms would be seen in every tail. While answers are written, each of the some hundred calls of torch that a
# pass is made of waits so long for Python's lock: with 0.5 ms that was up to a tenth of the pass.
SWITCH_SECONDS = 0.00005
OTHER_FILES = 64  # that the process has open beside connections
FEWEST_CONNECTIONS = 10
LAST_SECONDS = 5  # to send the last answers after the queue was given up


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
        http=functools.partial(  # type: ignore[arg-type]
            GuardedProtocol,
            reading_seconds=limits.reading_seconds,
            record_bad_http=lambda identity: service.record("-", "other", 400, "", 0.0, identity),
        ),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing here asks who the client is
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
