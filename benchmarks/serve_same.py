"""Whether a server under load answers what the predictor predicts without one."""

from __future__ import annotations

import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from manyheads import Predictor
from serve_subjects import Subject

CLIENTS = 32
TOLERANCE = 1e-5  # bits depend on what else is in a batch
Tasks = dict[str, Any]  # task → its prediction and probabilities


class Clients:
    """One text per request; every thread keeps its connection."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.own = threading.local()

    def ask(self, body: str) -> Tasks:
        if not hasattr(self.own, "connection"):
            self.own.connection = http.client.HTTPConnection("127.0.0.1", self.subject.server.port, timeout=60)
        self.own.connection.request("POST", self.subject.path, body.encode(), {"Content-Type": "application/json"})
        answer = self.own.connection.getresponse()
        content = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(f"{answer.status} {content}")
        tasks: Tasks = content["predictions"][0]["tasks"]
        return tasks


def compare_answers(
    subject: Subject, folder: Path, texts: list[str], requests: int
) -> tuple[list[str], dict[str, Any]]:
    """The largest difference of any probability, and how many predictions are other ones."""
    sent = [texts[number % len(texts)] for number in range(requests)]
    subject.server.resume()
    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = list(pool.map(Clients(subject).ask, subject.bodies(sent)))
    subject.server.pause()
    expected = Predictor.open(folder).predict_all(texts)
    largest, others = 0.0, 0
    for number, answered in enumerate(answers):
        for task, predictions in expected.items():
            predicted = predictions[number % len(texts)]
            others += answered[task]["prediction"] != predicted["prediction"]
            for label, probability in predicted["probabilities"].items():
                largest = max(largest, abs(answered[task]["probabilities"][label] - probability))
    met = largest <= TOLERANCE and not others
    lines = [
        f"| {requests:,} requests, {CLIENTS} clients, {len(expected)} heads | |",
        "|---|---|",
        f"| largest difference of a probability from `predict` | {largest:.1e} (aim: ≤ {TOLERANCE:.0e}) |",
        f"| other predictions than `predict` | {others} |",
    ]
    return lines, {"requests": requests, "largest difference": largest, "other predictions": others, "met": met}
