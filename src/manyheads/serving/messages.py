"""The two directions of a request, as ASGI has them: what the client sends, and what it is sent."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import Message, Receive, Scope, Send


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
        await self.send(message)

    def _all_headers(self) -> dict[str, str]:
        """With a body that nobody wants the connection is closed: the server would read it to its end, however far.

        A server that stops says so, and the client's next request goes elsewhere.
        """
        closes = self.is_stopping() or not self.receiver.is_read
        if closes and self.scope["http_version"].startswith("1"):
            return {**self.headers, "Connection": "close"}
        return self.headers
