"""A connection: what uvicorn leaves to chance, or to the client."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from manyheads.serving.access import request_id
from manyheads.serving.app import COMMON_HEADERS
from manyheads.serving.errors import RequestError, error_response

HEADER_BYTES = 131_072
HEADER_SECONDS = 10.0
CONTINUE = b"HTTP/1.1 100"
LAST_REQUEST_SECONDS = 0.5  # at the end, for what is on its way in a connection that is kept


class JoinedWrites:
    """An answer's head is sent with the beginning of its body: one call of the system, and the client wakes once."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self._head: bytes | None = None
        self._is_head_sent = False

    def write(self, data: bytes) -> None:
        if self._is_head_sent:
            self.transport.write(data)
        elif self._head is not None:
            self.transport.write(self._head + data)
            self._is_head_sent = True
        elif data.startswith(CONTINUE):
            self.transport.write(data)
        else:
            self._head = data

    def flush(self) -> None:
        """A head that no body follows."""
        if self._head is not None and not self._is_head_sent:
            self.write(b"")

    def close(self) -> None:
        self.flush()
        self.transport.close()

    def is_closing(self) -> bool:
        return bool(self.transport.is_closing())


class GuardedProtocol(HttpToolsProtocol):
    """Headers have to arrive in time, and have an end: uvicorn itself waits for ever, and reads any number.

    Where there are too many connections an idle one gives way to a new one: uvicorn itself counts it against requests,
    and answers them 503 in plain text, health among them.
    """

    _header_bytes = 0
    _last_header_bytes = b""  # their end may come in two pieces
    _header_timer: asyncio.TimerHandle | None = None
    _idle_since: float | None = None  # by loop.time
    _unsent_bytes = 0
    _reading_timer: asyncio.TimerHandle | None = None

    def __init__(
        self, *arguments: Any, reading_seconds: float, record_bad_http: Callable[[str], None], **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.reading_seconds, self.record_bad_http = reading_seconds, record_bad_http
        self._unanswered: deque[RequestResponseCycle] = deque()
        self.most_connections, self.limit_concurrency = self.limit_concurrency, None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # whatever is not sent pauses, and is watched
        self._expect_headers()
        if self.most_connections is not None and len(self.connections) > self.most_connections:
            self._make_room(self.most_connections)
        self._idle_since = self.loop.time()  # it has yet to ask for something

    def _make_room(self, most_connections: int) -> None:
        """Close the longest idle connection, unless enough are closing already."""
        staying: list[GuardedProtocol] = []
        for connection in self.connections:
            if isinstance(connection, GuardedProtocol) and not connection.transport.is_closing():
                staying.append(connection)
        idle = [connection for connection in staying if connection._idle_since is not None]
        if len(staying) > most_connections and idle:
            longest_idle = min(idle, key=lambda connection: connection._idle_since or 0.0)
            longest_idle._idle_since = None
            longest_idle.transport.abort()  # whether or not its last answer was read

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unsent_bytes = self.transport.get_write_buffer_size()
        self._reading_timer = self.loop.call_later(self.reading_seconds, self._check_reading)

    def resume_writing(self) -> None:
        self._stop_watching()
        super().resume_writing()

    def _check_reading(self) -> None:
        """A client that reads none of its answer would keep it for ever, a connection that is being closed too."""
        unsent_bytes = self.transport.get_write_buffer_size()
        if unsent_bytes >= self._unsent_bytes:
            self.transport.abort()
            return
        self._unsent_bytes = unsent_bytes
        self._reading_timer = self.loop.call_later(self.reading_seconds, self._check_reading)

    def _stop_watching(self) -> None:
        if self._reading_timer is not None:
            self._reading_timer.cancel()
            self._reading_timer = None

    def on_response_complete(self) -> None:
        self._unanswered.popleft().transport.flush()  # type: ignore[attr-defined]
        super().on_response_complete()
        if self.cycle.response_complete:  # else it is another request's turn, which came before this answer
            self._idle_since = self.loop.time()

    def _expect_headers(self) -> None:
        self._header_timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_expecting(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def data_received(self, data: bytes) -> None:
        if self._header_timer is not None:
            seen = self._last_header_bytes + data
            end = seen.find(b"\r\n\r\n")  # the first of a body may come with them
            self._header_bytes += len(data) if end == -1 else end
            self._last_header_bytes = seen[-3:]
            if self._header_bytes > HEADER_BYTES:
                self.transport.close()
                return
        self._unset_keepalive_if_required()
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        """An offer of another protocol is passed over: the parser would skip the request's body (uvicorn#2722)."""
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                if self.parser.get_method() == b"CONNECT":
                    self.send_400_response("Invalid HTTP request received.")
                    return
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
            except httptools.HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
                return

    def send_400_response(self, msg: str) -> None:
        """As JSON, like every fault: what cannot be parsed never comes to the application."""
        identity = request_id({})
        response = error_response(RequestError(400, "bad-http", msg), identity)
        response.headers.update({**COMMON_HEADERS, "X-Request-Id": identity, "Connection": "close"})
        lines = [b"%b: %b\r\n" % header for header in (*self.server_state.default_headers, *response.raw_headers)]
        self.transport.write(b"".join([STATUS_LINE[400], *lines, b"\r\n", bytes(response.body)]))
        self.transport.close()
        self.record_bad_http(identity)

    def _head_without_upgrade(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        for name, value in self.headers:
            if name != b"upgrade":
                lines.append(b"%b: %b" % (name, value))
        return b"\r\n".join([*lines, b"", b""])

    def on_message_begin(self) -> None:
        self._idle_since = None
        self._stop_expecting()
        self._expect_headers()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_expecting()
        self._header_bytes, self._last_header_bytes = 0, b""
        if not self.parser.should_upgrade():  # else it is parsed again
            self.scope["state"]["pipeline"] = self.pipeline  # what an answer that closes the connection would lose
            super().on_headers_complete()
            self.cycle.transport = JoinedWrites(self.transport)  # type: ignore[assignment]
            self._unanswered.append(self.cycle)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def shutdown(self) -> None:
        """The next request may be in the socket already: uvicorn itself would close before it is read."""
        self.loop.call_later(LAST_REQUEST_SECONDS, super().shutdown)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_expecting()
        self._stop_watching()
        for cycle in self._unanswered:  # uvicorn itself tells the last one only, and the others write to nobody
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)
