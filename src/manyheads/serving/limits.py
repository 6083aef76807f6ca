"""Where a server listens, and how much it takes on. Every limit holds for single inputs and for lists alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Limits:
    body_bytes: int = 2_000_000  # of a request
    arrival_seconds: float = 10.0  # until all of a request's body is there
    reading_seconds: float = 30.0  # that a client may read nothing of an answer
    inputs: int = 1_000  # of a request
    explained_inputs: int = 8  # of a request that asks which words mattered: a backward pass for each task and input
    long_inputs: Literal["truncate", "refuse"] = "truncate"  # that have more tokens than the encoder reads
    queue_tokens: int = 32_768  # that wait for the encoder; more requests are turned away with 429
    requests: int = 500  # under way at once; twice as many with those that still arrive, or whose answer is being read
    longest_timeout_ms: int = 600_000
    drain_seconds: float = 30.0  # to finish what is queued when the server is told to stop

    def describe(self) -> dict[str, int]:
        """What a client has to know to cut a long list into requests."""
        return {"inputs": self.inputs, "body_bytes": self.body_bytes}

    @property
    def open_requests(self) -> int:
        """From their headers to the last byte of their answer."""
        return 2 * self.requests + 10


@dataclass(frozen=True)
class ServerSettings:
    host: str = "127.0.0.1"
    port: int = 8000
    keys_file: Path | None = None  # API keys, one per line
    cors: tuple[str, ...] = ()  # origins whose pages may call
    log_texts: bool = False
    unready_seconds: float = 0.0  # between SIGTERM and closing the port, so that load balancers see it coming
