"""The two directions of a request, as ASGI has them: what the client sends, and what it is sent."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import Message, Receive, Scope, Send

PIECE_BYTES = 65_536


class Receiver:
    """Remembers whether all of a request's body was read."""

    def __init__(self, receive: Receive, headers: dict[str, str]) -> None:
        self.receive = receive
        has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        self.is_read = not has_body

    async def __call__(self) -> Message:
        message = await self.receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            self.is_read = True
        return message


class Sender:
    """Sends an answer with the headers that every answer has, and remembers its status."""

    def __init__(
        self, send: Send, headers: dict[str, str], scope: Scope, receiver: Receiver, is_stopping: Callable[[], bool]
    ) -> None:
        self.send, self.headers, self.scope, self.receiver = send, headers, scope, receiver
        self.is_stopping = is_stopping
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name.lower() for name, _ in message["headers"]}
            for name, value in self._all_headers().items():
                if name.lower().encode() not in present:
                    message["headers"].append((name.encode(), value.encode()))
        if message["type"] == "http.response.body":
            await self._send_in_pieces(message)
        else:
            await self.send(message)

    async def _send_in_pieces(self, message: Message) -> None:
        """Each waits until the one before is sent, so that a request is open until its client has read the answer."""
        body, more_body = message.get("body", b""), message.get("more_body", False)
        for start in range(0, max(len(body), 1), PIECE_BYTES):
            end = start + PIECE_BYTES
            is_followed = more_body or end < len(body)
            await self.send({"type": "http.response.body", "body": body[start:end], "more_body": is_followed})

    def _all_headers(self) -> dict[str, str]:
        """With a body that nobody wants the connection is closed: the server would read it to its end, however far.

        A server that stops says so, and the client's next request goes elsewhere; those that it has sent already are
        answered first.
        """
        is_last = not self.scope["state"].get("pipeline")
        closes = (self.is_stopping() and is_last) or not self.receiver.is_read
        if closes and self.scope["http_version"].startswith("1"):
            return {**self.headers, "Connection": "close"}
        return self.headers
