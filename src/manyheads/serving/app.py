"""The ASGI application: endpoints, and what surrounds every request."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

import numpy as np
import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from manyheads.inference.prepared import Prepared
from manyheads.serving.access import Access, request_id
from manyheads.serving.answering import Answering, describe_input
from manyheads.serving.body import read_json
from manyheads.serving.documentation import describe_api
from manyheads.serving.encoder_thread import EncoderThread, Outcome, Pending
from manyheads.serving.errors import RequestError, error_content, error_response, json_response, stopping_error
from manyheads.serving.limits import Limits
from manyheads.serving.messages import Receiver, Sender
from manyheads.serving.metrics import ServingMetrics
from manyheads.serving.models import ModelShelf, ServedModel, Source
from manyheads.serving.requests import EmbeddingRequest, PredictRequest, Reader, read_request, read_texts

LOGGER = logging.getLogger("manyheads.serve")
NDJSON = "application/x-ndjson"
PAGE_FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
COMMON_HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}


class Service:
    """What the endpoints share."""

    def __init__(self, sources: Sequence[Source], limits: Limits, access: Access, log_texts: bool = False) -> None:
        self.limits, self.access, self.log_texts = limits, access, log_texts
        self.metrics = ServingMetrics()
        self.shelf = ModelShelf(sources, self.metrics)
        self.encoder = EncoderThread(self.metrics, limits.queue_tokens)
        self.tokenizer_pool = ThreadPoolExecutor(1, "tokenizer")
        self.answering = Answering(self.encoder, self.tokenizer_pool, limits)
        self.stopping = False  # unready, but what came is answered

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The port is open at once; models are loaded meanwhile."""
        loader = ThreadPoolExecutor(1, "loader")
        self.encoder.start()
        loading = asyncio.create_task(self._load_and_watch(loader))
        try:
            yield
        finally:
            loading.cancel()
            await self.encoder.stop()
            self.tokenizer_pool.shutdown(wait=False, cancel_futures=True)
            loader.shutdown(wait=False, cancel_futures=True)

    async def _load_and_watch(self, loader: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()

        def run_in_thread(function: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
            return loop.run_in_executor(loader, function, *arguments)

        await run_in_thread(self.shelf.load_all)
        await self.shelf.watch(run_in_thread)

    def record(self, method: str, endpoint: str, status: int, model: str, seconds: float, identity: str) -> None:
        """An answered request, in figures and in the log."""
        self.metrics.requests.labels(endpoint, str(status), model).inc()
        self.metrics.request_seconds.labels(endpoint, model).observe(seconds)
        LOGGER.info("%s %s %d %.1f ms %s", method, endpoint, status, 1000 * seconds, identity)

    # --- endpoints -------------------------------------------------------------------------------------------------

    async def predict(self, request: Request) -> Response:
        asked: PredictRequest = read_request(PredictRequest, await read_json(request, self.limits), self.limits)
        model = self._find_model(request, asked.model)
        inputs = Reader(model, asked.tasks, self.limits).read(asked.inputs)
        if asked.explain:
            self._check_explanation(model, len(inputs))
        self._log(asked.inputs)
        pending = self.answering.begin(model, asked.timeout_ms)
        outcomes = self.answering.outcomes(pending, inputs, asked.explain, request)
        described = _described_inputs(outcomes, [number for number, _ in inputs])
        if NDJSON in request.headers.get("accept", ""):
            first = await anext(described)  # a request that is turned away has a status of its own
            return StreamingResponse(_lines(first, described), media_type=NDJSON)
        predictions = [one_input async for one_input in described]
        if len(predictions) == 1 and "error" in predictions[0]:
            error = predictions[0]["error"]
            raise RequestError(500, error["code"], error["message"])
        return json_response(
            {
                "id": request.state.id,
                "model": model.name,
                "predictions": predictions,
                "usage": {"inputs": len(predictions), "tokens": sum(one_input["tokens"] for one_input in predictions)},
                "milliseconds": _milliseconds(pending),
            }
        )

    def _find_model(self, request: Request, name: str | None) -> ServedModel:
        model = self.shelf.find(name)
        request.state.model = model.name  # for the metrics
        return model

    def _check_explanation(self, model: ServedModel, inputs: int) -> None:
        if not model.backend.explains:
            raise RequestError(422, "no-gradients", "explain: this model's backend has no gradients.")
        if inputs > self.limits.explained_inputs:
            message = f"explain: {inputs} inputs, at most {self.limits.explained_inputs} at a time."
            raise RequestError(413, "too-many-inputs", message)

    def _log(self, texts: Any) -> None:
        if self.log_texts:
            LOGGER.info("inputs %s", json.dumps(texts))

    async def embed(self, request: Request) -> Response:
        asked: EmbeddingRequest = read_request(EmbeddingRequest, await read_json(request, self.limits), self.limits)
        model = self._find_model(request, asked.model)
        inputs = read_texts(asked.input, self.limits)
        self._log(asked.input)
        pending = self.answering.begin(model, asked.timeout_ms)
        data: list[dict[str, Any]] = []
        tokens = 0
        async for prepared, outcome in self.answering.outcomes(pending, inputs, False, request):
            if isinstance(outcome, RequestError):
                raise outcome
            assert isinstance(outcome, np.ndarray)
            embedding: Any = outcome.tolist()
            if asked.encoding_format == "base64":
                embedding = base64.b64encode(outcome.astype("<f4").tobytes()).decode()
            entry = {"object": "embedding", "index": len(data), "embedding": embedding, "truncated": prepared.truncated}
            data.append(entry)
            tokens += prepared.tokens
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return json_response({"object": "list", "data": data, "model": model.name, "usage": usage})

    async def models(self, request: Request) -> Response:
        described = []
        for name in self.shelf.sources:
            if name in self.shelf.models:
                described.append(self.shelf.models[name].describe())
            else:
                described.append({"id": name, "object": "model", "owned_by": "manyheads", "ready": False})
        return json_response({"object": "list", "data": described, "limits": self.limits.describe()})

    async def live(self, request: Request) -> Response:
        return json_response({"live": True})

    async def ready(self, request: Request) -> Response:
        if self.stopping:
            raise stopping_error()
        if not self.shelf.ready:
            raise RequestError(503, "not-ready", self.shelf.why_not_ready, {"Retry-After": "1"})
        return json_response({"ready": True})

    async def prometheus(self, request: Request) -> Response:
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        return json_response(describe_api(list(self.shelf.models.values()), bool(self.access.keys)))

    async def page(self, request: Request) -> Response:
        name, media_type = PAGE_FILES[request.url.path]
        content = files("manyheads.serving").joinpath("page", name).read_bytes()
        return Response(content, media_type=media_type, headers={"Content-Security-Policy": PAGE_POLICY})


async def _described_inputs(
    outcomes: AsyncIterator[tuple[Prepared, Outcome]], numbers: list[int]
) -> AsyncIterator[dict[str, Any]]:
    """Each input of the request, when all its parts are there; `numbers` says of which input each part is."""
    parts: list[tuple[Prepared, Outcome]] = []
    for number, next_number in zip(numbers, [*numbers[1:], None], strict=True):
        parts.append(await anext(outcomes))
        if number != next_number:
            yield describe_input(parts)
            parts = []
    await anext(outcomes, None)  # so that it ends, and cleans up, now


async def _lines(first: dict[str, Any], others: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    """A line for each input; a fault on the way is the last line, for the status is sent already."""
    yield orjson.dumps({"index": 0, **first}) + b"\n"
    index = 1
    try:
        async for described in others:
            yield orjson.dumps({"index": index, **described}) + b"\n"
            index += 1
    except RequestError as error:
        yield orjson.dumps({"error": error_content(error.code, error.message)}) + b"\n"


def _milliseconds(pending: Pending) -> dict[str, float]:
    return {
        "queue": round(1000 * pending.queue_seconds, 3),
        "encoder": round(1000 * pending.encoder_seconds, 3),
    }


# --- around every request ---------------------------------------------------------------------------------------

Endpoint = Callable[[Service, Request], Awaitable[Response]]
ENDPOINTS: dict[str, tuple[str, Endpoint]] = {
    "/v1/predict": ("POST", Service.predict),
    "/v1/embeddings": ("POST", Service.embed),
    "/v1/models": ("GET", Service.models),
    "/v2/health/live": ("GET", Service.live),
    "/v2/health/ready": ("GET", Service.ready),
    "/metrics": ("GET", Service.prometheus),
    "/openapi.json": ("GET", Service.openapi),
    "/": ("GET", Service.page),
    "/page.css": ("GET", Service.page),
    "/page.js": ("GET", Service.page),
}


HEALTH_PATHS = ("/v2/health/live", "/v2/health/ready")  # answered however much there is to do


class Application:
    """Checks who calls, gives every request an id, and turns every fault into one JSON object."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.open_requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self.service.running():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        identity = request_id(headers)
        scope.setdefault("state", {})["id"] = identity
        began = time.monotonic()
        receiver = Receiver(receive, headers)
        common_headers = {**COMMON_HEADERS, "X-Request-Id": identity, **self._cors_headers(headers)}
        sender = Sender(send, common_headers, scope, receiver, lambda: self.service.stopping)
        self.open_requests += 1
        try:
            response = await self._find_response(Request(scope, receiver), headers)
            await response(scope, receiver, sender)
        except RequestError as error:
            await error_response(error, identity)(scope, receive, sender)
        except asyncio.CancelledError:  # the server waits no longer for what was under way when it was told to stop
            if not self.service.stopping or sender.status is not None:
                raise
            await error_response(stopping_error(), identity)(scope, receive, sender)
        except Exception:
            LOGGER.exception("request %s failed", identity)
            if sender.status is None:
                fault = RequestError(500, "failed", "The server failed on this request.")
                await error_response(fault, identity)(scope, receive, sender)
        finally:
            self.open_requests -= 1
            self._record(scope, sender.status or 500, time.monotonic() - began, identity)

    async def _find_response(self, request: Request, headers: dict[str, str]) -> Response:
        path = request.scope["path"]
        if request.method == "OPTIONS" and headers.get("origin") in self.service.access.cors:
            return Response(status_code=204)  # browsers ask without the key
        self.service.access.check(path, headers)
        if self.open_requests > self.service.limits.open_requests and path not in HEALTH_PATHS:
            message = "Too many requests at once; try again later."
            raise RequestError(429, "too-many-requests", message, {"Retry-After": "1"})
        if path not in ENDPOINTS:
            raise RequestError(404, "not-found", "No such address.")
        method, endpoint = ENDPOINTS[path]
        if request.method != method and (request.method, method) != ("HEAD", "GET"):  # uvicorn sends no body then
            raise RequestError(405, "wrong-method", f"This address takes {method}.", {"Allow": method})
        return await endpoint(self.service, request)

    def _cors_headers(self, headers: dict[str, str]) -> dict[str, str]:
        origin = headers.get("origin")
        if origin is None or origin not in self.service.access.cors:
            return {}
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": "GET, POST",
            "Access-Control-Allow-Headers": "authorization, content-type, x-request-id",
            "Access-Control-Expose-Headers": "Retry-After, X-Request-Id",
            "Vary": "Origin",
        }

    def _record(self, scope: Scope, status: int, seconds: float, identity: str) -> None:
        endpoint = scope["path"] if scope["path"] in ENDPOINTS else "other"
        self.service.record(scope["method"], endpoint, status, scope["state"].get("model", ""), seconds, identity)


def build_app(service: Service) -> ASGIApp:
    """The application of a service, for uvicorn or any other ASGI server."""
    return Application(service)
