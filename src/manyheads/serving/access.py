"""Who may call: API keys, or without them only pages and programs of this machine."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path

from manyheads.errors import UserError
from manyheads.serving.errors import RequestError

KEYS_VARIABLE = "MANYHEADS_API_KEYS"
SHORTEST_KEY = 16
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
OPEN_PATHS = ("/v2/health/live", "/v2/health/ready", "/", "/page.css", "/page.js")  # no data of the model is in them
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class ApiKeys:
    """Keys from a file, one per line, and from the environment, with commas between them."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self._digests: list[bytes] = []
        self.reload()

    def reload(self) -> None:
        keys: list[str] = [key.strip() for key in os.environ.get(KEYS_VARIABLE, "").split(",")]
        if self.file is not None:
            try:
                lines = self.file.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise UserError(f"{self.file}: the API keys cannot be read: {error}.", code="no-keys") from None
            keys += [line.strip() for line in lines if not line.startswith("#")]
        keys = [key for key in keys if key]
        for key in keys:
            if len(key) < SHORTEST_KEY:
                message = (
                    f"an API key is shorter than {SHORTEST_KEY} characters; `openssl rand -hex 24` makes a good one."
                )
                raise UserError(f"{self.file or KEYS_VARIABLE}: {message}", code="short-key")
        if self.file is not None and not keys:
            raise UserError(f"{self.file}: no API key is in it; one per line is expected.", code="no-keys")
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def accept(self, key: str) -> bool:
        """In constant time: every key is compared, whether one before was equal or not."""
        digest = _digest(key)
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        return any(matches)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def check_binding(host: str, keys: ApiKeys) -> None:
    """Beyond this machine only with a key."""
    if host not in LOOPBACK and not keys:
        raise UserError(
            f"--host {host}: without an API key the server binds to this machine only (127.0.0.1). Name a file of keys "
            f"(--keys FILE), or set {KEYS_VARIABLE}.",
            code="no-keys",
        )


class Access:
    """Decides over each request."""

    def __init__(self, keys: ApiKeys, host: str, cors: Sequence[str] = ()) -> None:
        self.keys, self.cors = keys, tuple(cors)
        self.hosts = {*LOOPBACK, host}

    def check(self, path: str, headers: dict[str, str]) -> None:
        if self.keys:  # no page has a key that its user did not give it, so it does not matter where it comes from
            if path not in OPEN_PATHS and not self.keys.accept(_bearer(headers)):
                message = "Send an API key: Authorization: Bearer KEY."
                raise RequestError(401, "no-key", message, {"WWW-Authenticate": "Bearer"})
            return
        if _without_port(headers.get("host", "")) not in self.hosts:  # DNS rebinding
            raise RequestError(403, "foreign-host", "The Host header names another machine.")
        origin = headers.get("origin")
        if origin is not None and origin not in self.cors and not self._is_own(origin, headers.get("host", "")):
            raise RequestError(403, "foreign-origin", "Requests of other sites' pages are refused.")

    @staticmethod
    def _is_own(origin: str, host: str) -> bool:
        return origin in (f"http://{host}", f"https://{host}")


def _bearer(headers: dict[str, str]) -> str:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()


def request_id(headers: dict[str, str]) -> str:
    """The client's own where it is harmless, else a new one."""
    given = headers.get("x-request-id", "")
    if REQUEST_ID.fullmatch(given):
        return given
    return secrets.token_hex(8)
