"""What a client did wrong, or has to wait for, as one sentence and a status."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import Response

LONGEST_MESSAGE = 400
LONGEST_NAME = 100


class RequestError(Exception):
    """A request that is not answered. The message goes to the client: it names no path and no package."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers = headers or {}


def stopping_error() -> RequestError:
    return RequestError(503, "stopping", "The server is stopping.", {"Retry-After": "1"})


def short_name(name: str) -> str:
    """Of what a client named, so much that the rest of the message fits."""
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "…"


def error_content(code: str, message: str) -> dict[str, str]:
    """Whatever a client sent, the answer can be encoded."""
    safe = message.encode("utf-8", "replace").decode()
    if len(safe) > LONGEST_MESSAGE:
        safe = safe[:LONGEST_MESSAGE] + "…"
    return {"code": code, "message": safe}


def error_response(error: RequestError, request_id: str) -> Response:
    content = {"error": error_content(error.code, error.message), "id": request_id}
    return json_response(content, error.status, error.headers)


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status, headers, media_type="application/json")
