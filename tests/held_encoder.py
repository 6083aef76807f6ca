"""Holds a server's encoder or tokenizer thread where a test chooses: what waits behind it waits for certain."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from running_server import RunningServer

CODE = """
import time
from pathlib import Path
import manyheads.inference.torch_requests as requests

def held(quick, hold, reached):
    def wait_first(model, prepared):
        while hold.exists():
            reached.touch()
            time.sleep(0.005)
        return quick(model, prepared)
    return wait_first

requests.{function} = held(requests.{function}, Path({hold!r}), Path({reached!r}))
"""


class HeldEncoder:
    """`code` is for a server's `before`; `function` is what is held: answer, embed, explain or prepare."""

    def __init__(self, folder: Path, function: str = "answer") -> None:
        self.file, self.reached = folder / f"hold-{function}", folder / f"reached-{function}"
        self.code = CODE.format(function=function, hold=str(self.file), reached=str(self.reached))

    def hold(self) -> None:
        """From the next call on."""
        self.reached.unlink(missing_ok=True)
        self.file.touch()

    def wait_until_reached(self) -> None:
        wait_until(self.reached.exists)

    def release(self) -> None:
        self.file.unlink()


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def wait_for_queued_tokens(server: RunningServer, tokens: int) -> None:
    """Until so many wait for the encoder."""
    wait_until(lambda: server.figure("manyheads_queued_tokens") == tokens)
