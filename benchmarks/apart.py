"""A rival in a process of its own, as its users run it: nothing that another does to the process helps or harms it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

Rival = Callable[[Any], float]  # work → seconds


class Apart:
    """`make(*given)`, built and called over there."""

    def __init__(self, make: Callable[..., Rival], *given: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make, given), daemon=True)
        self._process.start()
        theirs.close()
        self._ready = False

    @property
    def id(self) -> int:
        """Of its process."""
        assert self._process.pid is not None
        return self._process.pid

    def __call__(self, work: Any) -> float:
        self.wait()
        self._pipe.send(work)
        return float(self._pipe.recv())

    def wait(self) -> None:
        """Until it is built: rivals are built side by side, and take turns when all are."""
        self._ready = self._ready or bool(self._pipe.recv())

    def stop(self) -> None:
        self._pipe.close()
        self._process.join()


def _serve(pipe: Connection, make: Callable[..., Rival], given: tuple[Any, ...]) -> None:
    rival = make(*given)
    pipe.send(True)
    while True:
        try:
            work = pipe.recv()
        except EOFError:
            return
        pipe.send(rival(work))
