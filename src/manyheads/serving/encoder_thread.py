"""One thread that encodes: what came while it worked is its next batch. It never waits for company."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from manyheads.inference.prepared import Prepared, ServingBackend
from manyheads.serving.errors import RequestError, stopping_error
from manyheads.serving.metrics import ServingMetrics

LOGGER = logging.getLogger("manyheads.serve")


Outcome = dict[str, Any] | np.ndarray | RequestError
EXPLANATION_PASSES = 3  # what a task's explanation costs: forward, and backward


@dataclass(eq=False)
class Pending:
    """What a request waits for. Outcomes and seconds are the event loop's; the encoder thread reads all else."""

    model_name: str
    backend: ServingBackend
    deadline: float | None = None  # by time.monotonic
    abandoned: bool = False
    waiting_tokens: int = 0  # that no pass has taken yet; changed by both threads, under the queue's lock
    wants_more: bool = False  # has inputs that are queued as soon as a pass has taken others
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    queue_seconds: float = 0.0  # until a pass took the input that waited longest
    encoder_seconds: float = 0.0  # of the passes that its inputs were in, and of their explanations


@dataclass(eq=False)
class WorkItem:
    """One input of a request."""

    pending: Pending
    index: int
    prepared: Prepared
    explain: bool = False
    queued_at: float = 0.0
    queue_seconds: float = 0.0  # until a pass took it
    answer: dict[str, Any] = field(default_factory=dict)  # that waits for its explanation

    @property
    def cost(self) -> int:
        """In tokens, as the queue counts them."""
        if self.explain:
            return self.prepared.tokens * (1 + EXPLANATION_PASSES * len(self.prepared.tasks))
        return self.prepared.tokens


class EncoderThread:
    """Takes inputs first come, first served, as many as fit into a pass, of whichever requests."""

    def __init__(self, metrics: ServingMetrics, queue_tokens: int) -> None:
        self.metrics, self.queue_tokens = metrics, queue_tokens
        self._items: deque[WorkItem] = deque()
        self._to_explain: deque[WorkItem] = deque()
        self._waiting = threading.Condition()
        self._tokens = 0  # of items that wait for a pass or for their explanation
        metrics.queued_tokens.set_function(lambda: self._tokens)
        self._tokens_per_second = 0.0  # of late
        self._given_up = False
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="encoder", daemon=True)

    def start(self) -> None:
        """From the event loop that outcomes go to."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def give_up(self) -> None:
        """What waits, or comes from now on, is neither encoded nor explained any more."""
        self._given_up = True
        self.drop_needless()

    async def stop(self) -> None:
        self.give_up()
        with self._waiting:
            self._stopping = True
            self._waiting.notify()
        await asyncio.to_thread(self._thread.join, 10)

    def has_room(self, tokens: int) -> bool:
        """An empty queue takes anything: what is larger than the queue could never be answered otherwise."""
        return not self._tokens or self._tokens + tokens <= self.queue_tokens

    def drop_needless(self) -> None:
        """What nobody waits for takes no room."""
        now = time.monotonic()
        dropped: list[tuple[WorkItem, Outcome]] = []
        with self._waiting:
            for waiting in (self._items, self._to_explain):
                items = list(waiting)
                waiting.clear()
                for item in items:
                    failure = self._why_needless(item, now)
                    if failure is None:
                        waiting.append(item)
                    else:
                        dropped.append((item, failure))
                        self._tokens -= item.cost
        self._deliver(dropped)

    def seconds_until_empty(self) -> int:
        """What a client that is turned away should wait."""
        if not self._tokens_per_second:
            return 1
        return min(60, max(1, round(self._tokens / self._tokens_per_second)))

    def put(self, items: list[WorkItem]) -> None:
        now = time.monotonic()
        for item in items:
            item.queued_at = now
        with self._waiting:
            self._items.extend(items)
            for item in items:
                self._tokens += item.cost
                item.pending.waiting_tokens += item.prepared.tokens
            self._waiting.notify()

    # --- in the thread ---------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._waiting:
                while not self._items and not self._to_explain and not self._stopping:
                    self._waiting.wait()
                if self._stopping:
                    return
                batch, dropped = self._take_batch()
            if dropped:
                self._call_in_loop(self._deliver, dropped)
            self._wake_who_wants_more(batch)
            if batch:
                began = time.monotonic()
                outcomes = self._answer(batch)
                self._call_in_loop(self._finish_pass, batch, outcomes, time.monotonic() - began)
            self._explain_next()  # one a turn: plain predictions do not wait for them

    def _call_in_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(function, *arguments)

    def _wake_who_wants_more(self, batch: list[WorkItem]) -> None:
        """While a pass is computed, long lists fill the room that it left in the queue."""
        for pending in {item.pending for item in batch if item.pending.wants_more}:
            self._call_in_loop(pending.changed.set)

    def _take_batch(self) -> tuple[list[WorkItem], list[tuple[WorkItem, Outcome]]]:
        """The next items of one model that fit into a pass; and those that need not be encoded any more."""
        batch: list[WorkItem] = []
        dropped: list[tuple[WorkItem, Outcome]] = []
        others: list[WorkItem] = []
        tokens, now = 0, time.monotonic()
        while self._items:
            item = self._items[0]
            failure = self._why_needless(item, now)
            if failure is None and batch:
                if item.pending.backend is not batch[0].pending.backend:
                    others.append(self._items.popleft())
                    continue
                if tokens + item.prepared.tokens > item.pending.backend.tokens_per_pass:
                    break
            self._items.popleft()
            item.queue_seconds = now - item.queued_at
            item.pending.waiting_tokens -= item.prepared.tokens
            if failure is None:
                batch.append(item)
                tokens += item.prepared.tokens
            else:
                dropped.append((item, failure))
            if failure is not None or not item.explain:  # what is to be explained takes room until it is
                self._tokens -= item.cost
        self._items.extendleft(reversed(others))
        return batch, dropped

    def _answer(self, batch: list[WorkItem]) -> list[tuple[WorkItem, Outcome]]:
        """Outcomes, but of those that are to be explained as well."""
        outcomes: list[tuple[WorkItem, Outcome]] = []
        to_predict = [item for item in batch if item.prepared.tasks]
        to_embed = [item for item in batch if not item.prepared.tasks]
        backend = batch[0].pending.backend
        if to_predict:
            outcomes += self._answer_together(to_predict, lambda prepared: list(backend.answer(prepared)))
        if to_embed:
            outcomes += self._answer_together(to_embed, lambda prepared: list(backend.embed_prepared(prepared)))
        finished: list[tuple[WorkItem, Outcome]] = []
        for item, outcome in outcomes:
            if item.explain and isinstance(outcome, dict):
                item.answer = outcome
                with self._waiting:
                    self._to_explain.append(item)
                continue
            if item.explain:
                self._make_room(item)
            finished.append((item, outcome))
        return finished

    def _make_room(self, item: WorkItem) -> None:
        with self._waiting:
            self._tokens -= item.cost

    def _answer_together(
        self, items: list[WorkItem], compute: Callable[[list[Prepared]], list[Any]]
    ) -> list[tuple[WorkItem, Outcome]]:
        """All at once; where that fails one by one, so that one bad input spoils no other."""
        try:
            return list(zip(items, compute([item.prepared for item in items]), strict=True))
        except Exception:  # whatever a model raises, the server goes on
            if len(items) == 1:
                LOGGER.exception("an input failed")
                return [(items[0], _broken())]
        outcomes: list[tuple[WorkItem, Outcome]] = []
        for item in items:
            outcomes += self._answer_together([item], compute)
        return outcomes

    def _explain_next(self) -> None:
        """Add to each task's prediction which words mattered, as long as somebody waits for it."""
        with self._waiting:
            if not self._to_explain:
                return
            item = self._to_explain.popleft()
        began = time.monotonic()
        outcome: Outcome | None = self._why_needless(item, began)
        if outcome is None:
            outcome = _explain(item)
        self._make_room(item)
        self._call_in_loop(_add_encoder_seconds, [item], time.monotonic() - began)
        self._call_in_loop(self._deliver, [(item, outcome)])

    def _why_needless(self, item: WorkItem, now: float) -> RequestError | None:
        """Why an input need not be encoded or explained any more. Called in both threads."""
        if self._given_up:
            return stopping_error()
        if item.pending.deadline is not None and now > item.pending.deadline:
            return deadline_error()
        if item.pending.abandoned:
            return RequestError(499, "client-left", "The client left.")
        return None

    # --- in the event loop -------------------------------------------------------------------------------------------

    def _finish_pass(self, batch: list[WorkItem], outcomes: list[tuple[WorkItem, Outcome]], seconds: float) -> None:
        _add_encoder_seconds(batch, seconds)
        self._deliver(outcomes)
        asyncio.get_running_loop().call_soon(self._measure, batch, seconds)  # when the answers are on their way

    def _measure(self, batch: list[WorkItem], seconds: float) -> None:
        model = batch[0].pending.model_name
        lengths = [item.prepared.tokens for item in batch]
        tokens = sum(lengths)
        self.metrics.stage_seconds.labels(model, "encode").observe(seconds)
        self.metrics.batch_inputs.labels(model).observe(len(batch))
        self.metrics.batch_tokens.labels(model).observe(tokens)
        self.metrics.padding_avoided.labels(model).inc(max(lengths) * len(lengths) - tokens)
        queue_seconds = self.metrics.stage_seconds.labels(model, "queue")
        for item in batch:
            queue_seconds.observe(item.queue_seconds)
        rate = tokens / max(seconds, 1e-6)
        self._tokens_per_second = rate if not self._tokens_per_second else 0.8 * self._tokens_per_second + 0.2 * rate

    def _deliver(self, outcomes: list[tuple[WorkItem, Outcome]]) -> None:
        requests: set[Pending] = set()
        for item, outcome in outcomes:
            pending = item.pending
            pending.outcomes[item.index] = outcome
            pending.queue_seconds = max(pending.queue_seconds, item.queue_seconds)
            requests.add(pending)
            self.metrics.inputs.labels(pending.model_name, _outcome_name(outcome)).inc()
        for pending in requests:
            pending.changed.set()


def _add_encoder_seconds(items: list[WorkItem], seconds: float) -> None:
    """What the thread did for these; before their outcomes are delivered, so that the answer has it."""
    for pending in {item.pending for item in items}:
        pending.encoder_seconds += seconds


def _explain(item: WorkItem) -> Outcome:
    try:
        words = item.pending.backend.explain(item.prepared)
    except Exception:  # whatever a model raises, the server goes on
        LOGGER.exception("an explanation failed")
        return _broken()
    explained: dict[str, Any] = {}
    for task, prediction in item.answer.items():
        explained[task] = {**prediction, "words": words.get(task, [])}
    return explained


def deadline_error() -> RequestError:
    return RequestError(504, "deadline", "The deadline passed before all inputs were encoded.")


def _broken() -> RequestError:
    return RequestError(500, "failed", "The model failed on this input.")


def _outcome_name(outcome: Outcome) -> str:
    if isinstance(outcome, RequestError):
        return outcome.code
    return "answered"
