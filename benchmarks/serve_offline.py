"""The same predictions without a server, in a process of their own: what HTTP is compared with."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import torch

from manyheads import Predictor


class OneByOne:
    """Seconds of one text: the median."""

    def __init__(self, folder: Path) -> None:
        torch.set_num_threads(1)
        self.predictor = Predictor.open(folder)

    def __call__(self, texts: list[str]) -> float:
        taken: list[float] = []
        for text in texts:
            began = time.perf_counter()
            self.predictor.predict_all([text])
            taken.append(time.perf_counter() - began)
        return statistics.median(taken)


class AllAtOnce:
    """Seconds of all texts."""

    def __init__(self, folder: Path) -> None:
        torch.set_num_threads(1)
        self.predictor = Predictor.open(folder)
        (self.task,) = self.predictor.tasks

    def __call__(self, texts: list[str]) -> float:
        began = time.perf_counter()
        self.predictor.predict(self.task, texts)
        return time.perf_counter() - began
