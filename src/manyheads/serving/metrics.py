"""What /metrics tells Prometheus. Labels are models, stages and statuses: nothing that a client can invent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
TOKENS = (16, 64, 256, 1024, 2048, 4096, 8192)
INPUTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServingMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self.requests = Counter(
            "manyheads_requests",
            "Requests by endpoint, status and model; the model is empty where a request came to none.",
            ["endpoint", "status", "model"],
            registry=registry,
        )
        self.request_seconds = Histogram(
            "manyheads_request_seconds",
            "From a request to its answer.",
            ["endpoint", "model"],
            buckets=SECONDS,
            registry=registry,
        )
        self.stage_seconds = Histogram(
            "manyheads_stage_seconds",
            "Of one batch (encode) or one request (tokenise, queue).",
            ["model", "stage"],
            buckets=SECONDS,
            registry=registry,
        )
        self.queued_tokens = Gauge(
            "manyheads_queued_tokens",
            "Tokens of inputs that wait for the encoder, not those of the pass being computed. An input to be "
            "explained counts 1 + 3 for each task times its tokens, until its explanation is there.",
            registry=registry,
        )
        self.batch_inputs = Histogram(
            "manyheads_batch_inputs", "Inputs of an encoder pass.", ["model"], buckets=INPUTS, registry=registry
        )
        self.batch_tokens = Histogram(
            "manyheads_batch_tokens", "Tokens of an encoder pass.", ["model"], buckets=TOKENS, registry=registry
        )
        self.padding_avoided = Counter(
            "manyheads_padding_avoided_tokens",
            "Tokens of padding that batches of equal length would have had.",
            ["model"],
            registry=registry,
        )
        self.inputs = Counter(
            "manyheads_inputs", "Inputs by what became of them.", ["model", "outcome"], registry=registry
        )
        self.models = Gauge("manyheads_model_loaded", "When each model was loaded.", ["model"], registry=registry)

    @contextmanager
    def stage(self, model: str, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.stage_seconds.labels(model, name).observe(time.monotonic() - began)

    def text(self) -> bytes:
        return generate_latest(self.registry)
