"""uvicorn around the application: signals, and an end that loses no request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
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

LOGGER = logging.getLogger("manyheads.serve")
SWITCH_SECONDS = 0.0005  # a thread gives way to the event loop so soon; Python's 5 ms would be seen in every tail


class Server(uvicorn.Server):
    """Stops when it is told to: unready first, then what is queued is finished, then exit 0."""

    def __init__(self, config: uvicorn.Config, service: Service, unready_seconds: float) -> None:
        super().__init__(config)
        self.service, self.unready_seconds = service, unready_seconds

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
        if self.service.stopping:
            self.force_exit = True  # told twice
        self.service.stopping = True
        if self.unready_seconds:
            asyncio.get_running_loop().call_later(self.unready_seconds, self._stop)
        else:
            self._stop()

    def _stop(self) -> None:
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
    service = Service(sources, limits, Access(keys, settings.host, settings.cors), settings.log_texts)
    sys.setswitchinterval(SWITCH_SECONDS)
    config = uvicorn.Config(
        build_app(service),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(limits.drain_seconds),
        timeout_keep_alive=75,
        ws="none",
        lifespan="on",
    )
    Server(config, service, settings.unready_seconds).run()
