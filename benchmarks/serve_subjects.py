"""The servers that are compared, and a check that they compute the same."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.encoder.loading import locate
from serve_load import Load, Measured, run_load
from serve_models import model_folder
from serve_peers import PEERS, NotInstalled
from serve_process import ServerProcess

ENCODER = "all-MiniLM-L6-v2"
EMBEDDINGS, ONE_HEAD, EIGHT_HEADS = "manyheads, embeddings", "manyheads, one head", "manyheads, eight heads"
EXPORTED = "exported: "  # begins the names of those that serve the same models as graphs
EMBEDDINGS_PATH, PREDICT_PATH = "/v1/embeddings", "/v1/predict"
COMPARED_TEXTS = 8
SAME = 0.999  # cosine of embeddings that count as the same


@dataclass(frozen=True)
class Subject:
    """A server, and what it is asked."""

    name: str
    server: ServerProcess
    path: str
    key: str  # of the texts in a request

    def bodies(self, texts: list[str]) -> list[str]:
        return [json.dumps({self.key: [text]}) for text in texts]

    def load(self, texts: list[str], **settings: Any) -> Measured:
        """Measure it, while all others are paused."""
        self.server.resume()
        load = Load(self.server.port, self.server.id, "POST", self.path, self.bodies(texts), **settings)
        try:
            return run_load(load)
        finally:
            self.server.pause()


@dataclass
class Started:
    """Those that could be had, paused; and of the others why not."""

    subjects: list[Subject] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def start_subjects(folder: Path, with_peers: bool, queue_tokens: int, stack: ExitStack) -> Started:
    """`stack` stops them in the end."""
    started = Started()
    for prefix, exported in (("", False), (EXPORTED, True)):
        one = _start_ours(model_folder(folder, 1, exported), queue_tokens, stack)
        eight = _start_ours(model_folder(folder, 8, exported), queue_tokens, stack)
        started.subjects.append(Subject(prefix + EMBEDDINGS, one, EMBEDDINGS_PATH, "input"))
        started.subjects.append(Subject(prefix + ONE_HEAD, one, PREDICT_PATH, "inputs"))
        started.subjects.append(Subject(prefix + EIGHT_HEADS, eight, PREDICT_PATH, "inputs"))
    for peer in PEERS if with_peers else ():
        try:
            peer.install()
            server = _start(peer.command(locate(ENCODER).folder), "/health", folder / f"{peer.package}.log", stack)
        except (NotInstalled, RuntimeError) as fault:
            started.missing[peer.name] = str(fault)
            continue
        started.versions[peer.name] = peer.versions()
        started.subjects.append(Subject(peer.name, server, EMBEDDINGS_PATH, "input"))
    return started


def _start_ours(model: Path, queue_tokens: int, stack: ExitStack) -> ServerProcess:
    command = [sys.executable, "-m", "manyheads", "serve", str(model), "--port", "PORT"]
    return _start(
        [*command, "--queue-tokens", str(queue_tokens)], "/v2/health/ready", model.parent / f"{model.name}.log", stack
    )


def _start(command: list[str], ready_path: str, log: Path, stack: ExitStack) -> ServerProcess:
    """Ready, and paused."""
    server = ServerProcess(command, ready_path, log)
    stack.callback(server.stop)
    server.wait()
    server.pause()
    return server


def check_embeddings(subjects: list[Subject], texts: list[str]) -> None:
    """All that embed do the same work."""
    directions: dict[str, np.ndarray] = {}
    for subject in subjects:
        if subject.key == "input":
            directions[subject.name] = _directions(subject, texts[:COMPARED_TEXTS])
    for name, found in directions.items():
        cosine = float((found * directions[EMBEDDINGS]).sum(axis=1).min())
        assert cosine > SAME, f"{name} embeds otherwise: cosine {cosine:.4f}"


def _directions(subject: Subject, texts: list[str]) -> np.ndarray:
    vectors: list[list[float]] = []
    subject.server.resume()
    for body in subject.bodies(texts):
        vectors.append(json.loads(subject.server.post(subject.path, body))["data"][0]["embedding"])
    subject.server.pause()
    found = np.array(vectors)
    return found / np.linalg.norm(found, axis=1, keepdims=True)
