"""From the inputs of a request to its answer: tokenise, queue, wait, and give up where nobody waits any more."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from fastapi import Request

from manyheads.errors import UserError
from manyheads.inference.prepared import Prepared, TextInput
from manyheads.serving.encoder_thread import EncoderThread, Failure, Outcome, Pending, WorkItem
from manyheads.serving.errors import RequestError, error_content
from manyheads.serving.limits import Limits
from manyheads.serving.metrics import ServingMetrics
from manyheads.serving.models import ServedModel
from manyheads.serving.requests import user_fault

INPUTS_AT_A_TIME = 64  # of a long list: others get in between
INLINE_CHARACTERS = 4_000  # shorter texts are tokenised faster than handed to another thread


class Answering:
    """One request on its way."""

    def __init__(self, encoder: EncoderThread, tokenizer_pool: ThreadPoolExecutor, limits: Limits) -> None:
        self.encoder, self.tokenizer_pool, self.limits = encoder, tokenizer_pool, limits
        self.metrics: ServingMetrics = encoder.metrics

    def begin(self, model: ServedModel, timeout_ms: int | None) -> Pending:
        deadline = None
        if timeout_ms is not None:
            deadline = time.monotonic() + timeout_ms / 1000
        return Pending(model.name, model.backend, deadline)

    async def outcomes(
        self, pending: Pending, inputs: Sequence[TextInput], explain: bool, request: Request
    ) -> AsyncIterator[tuple[Prepared, Outcome]]:
        """What becomes of each input, in their order, as soon as it is known."""
        watcher = asyncio.create_task(_watch_client(request, pending))
        prepared: list[Prepared] = []
        feeder: asyncio.Task[None] | None = None
        try:
            chunk = await self._prepare(pending, inputs[:INPUTS_AT_A_TIME])
            self._turn_away_if_full(chunk)
            prepared += chunk
            self._queue(pending, chunk, 0, explain)
            if len(inputs) > INPUTS_AT_A_TIME:
                feeder = asyncio.create_task(self._feed(pending, inputs, prepared, explain))
            for index in range(len(inputs)):
                while index not in pending.outcomes:
                    await self._wait(pending, feeder)
                yield prepared[index], pending.outcomes.pop(index)
        finally:
            pending.abandoned = True  # whatever is left in the queue is not encoded
            for task in (watcher, feeder):
                if task is not None:
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task

    async def _prepare(self, pending: Pending, inputs: Sequence[TextInput]) -> list[Prepared]:
        characters = 0
        for text_input in inputs:
            characters += sum(map(len, text_input.texts))
        try:
            with self.metrics.stage(pending.model_name, "tokenise"):
                if characters <= INLINE_CHARACTERS:
                    prepared = pending.backend.prepare(list(inputs))
                else:
                    loop = asyncio.get_running_loop()
                    prepared = await loop.run_in_executor(self.tokenizer_pool, pending.backend.prepare, list(inputs))
        except UserError as fault:
            raise user_fault(fault) from None
        if self.limits.long_inputs == "refuse":
            for number, one_input in enumerate(prepared, start=1):
                if one_input.truncated:
                    message = f"input {number}: longer than the {pending.backend.max_length} tokens that are read."
                    raise RequestError(413, "input-too-long", message)
        return prepared

    def _turn_away_if_full(self, prepared: list[Prepared]) -> None:
        if not self.encoder.has_room(sum(one_input.tokens for one_input in prepared)):
            message = "The queue is full; try again later."
            raise RequestError(429, "queue-full", message, {"Retry-After": str(self.encoder.seconds_until_empty())})

    def _queue(self, pending: Pending, prepared: list[Prepared], first: int, explain: bool) -> None:
        items = []
        for offset, one_input in enumerate(prepared):
            items.append(WorkItem(pending, first + offset, one_input, explain))
        self.encoder.put(items)

    async def _feed(
        self, pending: Pending, inputs: Sequence[TextInput], prepared: list[Prepared], explain: bool
    ) -> None:
        """The rest of a long list, piece by piece, when there is room."""
        for first in range(INPUTS_AT_A_TIME, len(inputs), INPUTS_AT_A_TIME):
            chunk = await self._prepare(pending, inputs[first : first + INPUTS_AT_A_TIME])
            await self.encoder.wait_for_room()
            prepared += chunk
            self._queue(pending, chunk, first, explain)

    async def _wait(self, pending: Pending, feeder: asyncio.Task[None] | None) -> None:
        """Until something has changed, at most until the deadline."""
        if pending.abandoned:
            raise RequestError(499, "client-left", "The client left.")
        if feeder is not None and feeder.done() and feeder.exception() is not None:
            raise feeder.exception()  # type: ignore[misc]  # which is none no more
        remaining = 1.0  # to look after the feeder
        if pending.deadline is not None:
            remaining = min(remaining, pending.deadline - time.monotonic())
            if remaining <= 0:
                raise RequestError(504, "deadline", "The deadline passed before all inputs were encoded.")
        pending.changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(pending.changed.wait(), remaining)


async def _watch_client(request: Request, pending: Pending) -> None:
    """A client that has left waits for nothing."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            pending.abandoned = True
            pending.changed.set()
            return


def describe_input(parts: list[tuple[Prepared, Outcome]]) -> dict[str, Any]:
    """What the answer says of one input."""
    described: dict[str, Any] = {
        "tokens": sum(prepared.tokens for prepared, _ in parts),
        "truncated": any(prepared.truncated for prepared, _ in parts),
    }
    tasks: dict[str, Any] = {}
    for _, outcome in parts:
        if isinstance(outcome, Failure):
            return {**described, "error": error_content(outcome.code, outcome.message)}
        assert isinstance(outcome, dict)
        tasks |= outcome
    return {"tasks": tasks, **described}


def raise_failure(outcome: Outcome) -> np.ndarray | dict[str, Any]:
    """The outcome, of a request that is answered whole or not at all."""
    if isinstance(outcome, Failure):
        raise RequestError(outcome.status, outcome.code, outcome.message)
    return outcome
