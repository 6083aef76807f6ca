"""From the inputs of a request to its answer: tokenise, queue, wait, and give up where nobody waits any more."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from manyheads.errors import UserError
from manyheads.inference.prepared import Prepared, TextInput
from manyheads.serving.encoder_thread import EncoderThread, Outcome, Pending, WorkItem, deadline_error
from manyheads.serving.errors import RequestError, error_content
from manyheads.serving.limits import Limits
from manyheads.serving.metrics import ServingMetrics
from manyheads.serving.models import ServedModel
from manyheads.serving.requests import NumberedInput, user_fault

INPUTS_AT_A_TIME = 64  # that are tokenised together
# fewer and shorter inputs are tokenised faster than handed to another thread
INLINE_INPUTS = 8
INLINE_CHARACTERS = 4_000
CHARACTERS_PER_TOKEN = 200  # more of a text is not looked at: tokenizers take a word of over 100 characters for unknown
MOST_CHARACTERS = 20_000_000  # that wait to be tokenised


class Answering:
    """Tokenises, queues and collects, for all requests."""

    def __init__(self, encoder: EncoderThread, tokenizer_pool: ThreadPoolExecutor, limits: Limits) -> None:
        self.encoder, self.tokenizer_pool, self.limits = encoder, tokenizer_pool, limits
        self.metrics: ServingMetrics = encoder.metrics
        self.waiting_characters = 0
        self.requests = 0  # under way

    def begin(self, model: ServedModel, timeout_ms: int | None) -> Pending:
        deadline = None
        if timeout_ms is not None:
            deadline = time.monotonic() + timeout_ms / 1000
        return Pending(model.name, model.backend, deadline)

    async def outcomes(
        self, pending: Pending, inputs: Sequence[NumberedInput], explain: bool, request: Request
    ) -> AsyncIterator[tuple[Prepared, Outcome]]:
        """What becomes of each input, in their order, as soon as it is known.

        At most a pass of a request is in the queue, so that others get in between.
        """
        self._turn_away_if_full(1)  # before anything is tokenised in vain
        if self.requests >= self.limits.requests:
            raise _queue_full(self.encoder.seconds_until_empty())
        self.requests += 1
        watcher = asyncio.create_task(_watch_client(request, pending))
        prepared: list[Prepared] = []
        queued, first_unknown = 0, 0  # how many inputs were put into the queue, and are answered
        tokens_per_pass = pending.backend.tokens_per_pass
        try:
            while first_unknown < len(inputs):
                if queued == len(prepared) < len(inputs) and pending.waiting_tokens < tokens_per_pass:
                    prepared += await self._prepare(pending, inputs[queued : queued + INPUTS_AT_A_TIME])
                portion = _portion(prepared[queued:], pending.waiting_tokens, tokens_per_pass)
                if portion:
                    pending.wants_more = queued + len(portion) < len(inputs)
                    self._queue(pending, portion, queued, explain)
                    queued += len(portion)
                elif first_unknown not in pending.outcomes:
                    await self._wait(pending)
                while first_unknown in pending.outcomes:
                    outcome = pending.outcomes.pop(first_unknown)
                    if (
                        isinstance(outcome, RequestError) and outcome.status != 500
                    ):  # the server's state, not the input's
                        raise outcome
                    yield prepared[first_unknown], outcome
                    first_unknown += 1
        finally:
            self.requests -= 1
            pending.abandoned = True  # whatever is left in the queue is not encoded
            watcher.cancel()  # which takes effect when the answer is on its way

    def _queue(self, pending: Pending, portion: list[Prepared], first_index: int, explain: bool) -> None:
        """A request is turned away before anything of it is in the queue, and then no more."""
        items: list[WorkItem] = []
        for index, prepared in enumerate(portion, start=first_index):
            items.append(WorkItem(pending, index, prepared, explain))
        if first_index == 0:
            self._turn_away_if_full(sum(item.cost for item in items))
        self.encoder.put(items)

    async def _prepare(self, pending: Pending, inputs: Sequence[NumberedInput]) -> list[Prepared]:
        most_characters = pending.backend.max_length * CHARACTERS_PER_TOKEN
        texts = [_cut(text_input, most_characters) for _, text_input in inputs]
        characters = 0
        for text_input in texts:
            characters += sum(map(len, text_input.texts))
        try:
            with self.metrics.stage(pending.model_name, "tokenise"):
                if len(texts) <= INLINE_INPUTS and characters <= INLINE_CHARACTERS:
                    prepared = pending.backend.prepare(texts)
                else:
                    prepared = await self._prepare_in_thread(pending, texts, characters)
        except UserError as fault:
            raise user_fault(fault) from None
        for position, (_, given) in enumerate(inputs):
            if texts[position] is not given:  # what was cut away is not in the tokens
                prepared[position] = replace(prepared[position], truncated=True)
        if self.limits.long_inputs == "refuse":
            for (number, _), one_input in zip(inputs, prepared, strict=True):
                if one_input.truncated:
                    message = f"input {number}: longer than the {pending.backend.max_length} tokens that are read."
                    raise RequestError(413, "input-too-long", message)
        return prepared

    async def _prepare_in_thread(self, pending: Pending, texts: list[TextInput], characters: int) -> list[Prepared]:
        """Long or many texts, so that the event loop goes on meanwhile."""
        if self.waiting_characters + characters > MOST_CHARACTERS:
            raise _queue_full(1)
        remaining = None
        if pending.deadline is not None:
            remaining = max(0.0, pending.deadline - time.monotonic())

        def prepare_if_wanted() -> list[Prepared]:
            if pending.abandoned:
                raise RequestError(499, "client-left", "The client left.")
            return pending.backend.prepare(texts)

        self.waiting_characters += characters
        try:
            tokenising = asyncio.get_running_loop().run_in_executor(self.tokenizer_pool, prepare_if_wanted)
            return await asyncio.wait_for(tokenising, remaining)
        except TimeoutError:
            raise deadline_error() from None
        finally:
            self.waiting_characters -= characters

    def _turn_away_if_full(self, tokens: int) -> None:
        if not self.encoder.has_room(tokens):
            self.encoder.drop_needless()
        if not self.encoder.has_room(tokens):
            raise _queue_full(self.encoder.seconds_until_empty())

    async def _wait(self, pending: Pending) -> None:
        """Until something has changed, at most until the deadline."""
        if pending.abandoned:
            raise RequestError(499, "client-left", "The client left.")
        remaining = None
        if pending.deadline is not None:
            remaining = pending.deadline - time.monotonic()
            if remaining <= 0:
                raise deadline_error()
        pending.changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(pending.changed.wait(), remaining)


def _queue_full(seconds: int) -> RequestError:
    message = "The queue is full; try again later."
    return RequestError(429, "queue-full", message, {"Retry-After": str(seconds)})


def _portion(prepared: list[Prepared], waiting_tokens: int, most_tokens: int) -> list[Prepared]:
    """As many as fit beside what waits already; where nothing waits at least one."""
    tokens = waiting_tokens
    for count, one_input in enumerate(prepared):
        if tokens and tokens + one_input.tokens > most_tokens:
            return prepared[:count]
        tokens += one_input.tokens
    return prepared


def _cut(text_input: TextInput, characters: int) -> TextInput:
    """The beginning of long texts; the input itself where nothing is too long, or texts are read in windows or by
    candidate."""
    if any(task.kind.ragged for task in text_input.tasks):
        return text_input
    if all(len(text) <= characters for text in text_input.texts):
        return text_input
    return replace(text_input, texts=tuple(text[:characters] for text in text_input.texts))


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
        if isinstance(outcome, RequestError):
            return {**described, "error": error_content(outcome.code, outcome.message)}
        assert isinstance(outcome, dict)
        tasks |= outcome
    return {"tasks": tasks, **described}
