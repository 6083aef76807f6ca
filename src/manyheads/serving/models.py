"""The models that a server has: loaded while it already listens, and swapped when their folder changes."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manyheads.data.table import text_columns
from manyheads.errors import UserError
from manyheads.inference.predictor import Predictor
from manyheads.inference.prepared import ServingBackend, TextInput
from manyheads.inference.texts import takes_texts
from manyheads.serving.errors import RequestError, short_name
from manyheads.serving.metrics import ServingMetrics
from manyheads.tasks.task import Task

LOGGER = logging.getLogger("manyheads.serve")
WATCH_SECONDS = 2.0
Fingerprint = tuple[tuple[str, int, int], ...]  # of each file: name, time, size


@dataclass(frozen=True)
class Source:
    """Where a model comes from."""

    name: str
    model_folder: Path  # watched for changes
    open: Callable[[], Predictor]
    examples: Callable[[], list[dict[str, Any]]] = list  # inputs to try on the page

    def fingerprint(self) -> Fingerprint:
        files: list[tuple[str, int, int]] = []
        for file in sorted(self.model_folder.iterdir()):
            if file.is_file():
                status = file.stat()
                files.append((file.name, status.st_mtime_ns, status.st_size))
        return tuple(files)


@dataclass(frozen=True)
class ServedModel:
    name: str
    backend: ServingBackend
    loaded_at: int  # seconds since 1970
    examples: list[dict[str, Any]] = field(default_factory=list)

    def tasks_for(self, text_count: int) -> tuple[Task, ...]:
        return tuple(task for task in self.backend.tasks.values() if takes_texts(task, text_count))

    def describe(self) -> dict[str, Any]:
        return {
            "id": self.name,
            "object": "model",
            "created": self.loaded_at,
            "owned_by": "manyheads",
            "ready": True,
            "max_length": self.backend.max_length,
            "explains": self.backend.explains,
            "tasks": [_describe_task(task) for task in self.backend.tasks.values()],
            "examples": self.examples,
        }


def _describe_task(task: Task) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": task.name,
        "kind": task.labels.kind,
        "texts": len(task.columns.text),
        "columns": list(text_columns(task.columns)),
    }
    if task.kind.has_classes:
        described["labels"] = list(task.labels.names)
    else:
        described["range"] = list(task.labels.range) if task.labels.range else None
    return described


class ModelShelf:
    """All models by name."""

    def __init__(self, sources: Sequence[Source], metrics: ServingMetrics) -> None:
        self.sources = {source.name: source for source in sources}
        self.metrics = metrics
        self.models: dict[str, ServedModel] = {}
        self.faults: dict[str, str] = {}  # of models that could not be loaded
        self._fingerprints: dict[str, Fingerprint] = {}
        self._loading = threading.Lock()  # one at a time: two new models at once may not fit into memory

    @property
    def ready(self) -> bool:
        return len(self.models) == len(self.sources)

    @property
    def why_not_ready(self) -> str:
        for name, fault in self.faults.items():
            if name not in self.models:
                return f"Model '{name}' could not be loaded: {fault}"
        return "The model is being loaded."

    def find(self, name: str | None) -> ServedModel:
        """The model of that name; without a name the only one, or the first."""
        if name is None:
            name = next(iter(self.sources))
        if name not in self.sources:
            message = f"No model '{short_name(name)}'; there is {', '.join(self.sources)}."
            raise RequestError(404, "unknown-model", message)
        if name not in self.models:
            raise RequestError(503, "not-ready", self.why_not_ready, {"Retry-After": "1"})
        return self.models[name]

    def load_all(self) -> None:
        for source in self.sources.values():
            self._load(source)

    def _load(self, source: Source) -> None:
        """Open, warm up, and only then swap: requests that came before are answered by the model they came for."""
        began = time.monotonic()
        with self._loading:
            try:
                fingerprint = source.fingerprint()
                backend = source.open().backend
                _warm_up(backend)
                examples = source.examples()
            except Exception as fault:  # whatever is wrong with a folder, the server goes on
                reason = fault.code if isinstance(fault, UserError) else "unreadable"
                self.faults[source.name] = f"its folder is not a model that can be served ({reason})."
                LOGGER.error("model %s: %s", source.name, fault)
                return
            self.models[source.name] = ServedModel(source.name, backend, int(time.time()), examples)
            self._fingerprints[source.name] = fingerprint
            self.faults.pop(source.name, None)
        self.metrics.models.labels(source.name).set_to_current_time()
        LOGGER.info("model %s loaded in %.1f s", source.name, time.monotonic() - began)

    async def watch(self, run_in_thread: Callable[..., Any]) -> None:
        """Load what has changed, once its files have been the same for a while."""
        seen: dict[str, Fingerprint] = {}
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            for name, source in self.sources.items():
                try:
                    fingerprint = source.fingerprint()
                except OSError:  # being replaced
                    continue
                if fingerprint != self._fingerprints.get(name) and fingerprint == seen.get(name):
                    self._fingerprints[name] = fingerprint  # a broken folder is tried once, until it changes again
                    await run_in_thread(self._load, source)
                seen[name] = fingerprint


def _warm_up(backend: ServingBackend) -> None:
    """The first passes allocate memory and choose kernels: better before the first request than in it."""
    texts = ["a", "a word or two", "a long text " * 40]
    for text_count in (1, 2):
        tasks = tuple(task for task in backend.tasks.values() if takes_texts(task, text_count))
        if tasks:
            inputs = [TextInput((text,) * text_count, tasks) for text in texts]
            backend.answer(backend.prepare(inputs))
