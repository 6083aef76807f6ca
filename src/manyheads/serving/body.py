"""A request's body: how large, how slow and how strange it may be."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

from starlette.requests import ClientDisconnect, Request

from manyheads.serving.errors import RequestError
from manyheads.serving.limits import Limits


async def read_json(request: Request, limits: Limits) -> dict[str, Any]:
    """The object that the body is. Nothing is read of a body that says it is too large."""
    _check_headers(request, limits)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.arrival_seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limits.body_bytes:
                    raise _too_large(limits)
                chunks.append(chunk)
    except TimeoutError:
        message = f"The body was not there within {limits.arrival_seconds:g} seconds."
        raise RequestError(408, "slow-body", message) from None
    except ClientDisconnect:
        raise RequestError(400, "client-left", "The client left before its body was there.") from None
    return parse_object(b"".join(chunks))


def _check_headers(request: Request, limits: Limits) -> None:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise RequestError(415, "compressed-body", "Send the body uncompressed, without Content-Encoding.")
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise RequestError(415, "not-json", "Send JSON, with Content-Type: application/json.")
    length = request.headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length[:20]) > limits.body_bytes:
        raise _too_large(limits)


def _too_large(limits: Limits) -> RequestError:
    message = f"The body is larger than {limits.body_bytes:,} bytes; send fewer inputs at a time."
    return RequestError(413, "body-too-large", message)


def parse_object(raw: bytes) -> dict[str, Any]:
    """Strict JSON: one object, each key once, no NaN and no number without end."""
    try:
        content = STRICT_JSON.decode(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise RequestError(400, "bad-json", "The body is not valid UTF-8.") from None
    except RecursionError:
        raise RequestError(400, "bad-json", "The body is nested too deeply.") from None
    except json.JSONDecodeError as fault:
        message = f"The body is not valid JSON: {fault.msg} (line {fault.lineno}, column {fault.colno})."
        raise RequestError(400, "bad-json", message) from None
    except ValueError as fault:  # a number of thousands of digits, or one of ours
        reason = str(fault) if isinstance(fault, _StrictnessError) else "a number is too long"
        raise RequestError(400, "bad-json", f"The body is not valid JSON: {reason}.") from None
    if not isinstance(content, dict):
        raise RequestError(422, "bad-request", 'Expected an object such as {"inputs": ["A text."]}.')
    return content


class _StrictnessError(ValueError):
    """What Python's json would let pass."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise _StrictnessError("a key stands there twice")
    return content


def _refuse(constant: str) -> Any:
    raise _StrictnessError(f"{constant} is no JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _StrictnessError("a number is too large")
    return value


STRICT_JSON = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_refuse, parse_float=_finite)
