"""What a user would predict pairs with: manyheads, and what may be picked instead. All read the same weights."""

from __future__ import annotations

import time
from pathlib import Path

from manyheads import Run

Pair = tuple[str, str]


class Ours:
    """As `manyheads predict` does it, without the start of the process."""

    def __init__(self, folder: Path) -> None:
        self.run = Run(folder)
        (self.task,) = self.run.model.tasks

    def __call__(self, pairs: list[Pair]) -> float:
        began = time.perf_counter()
        self.run.predict(self.task, pairs)
        return time.perf_counter() - began


class Pipeline:
    """transformers' own."""

    def __init__(self, folder: Path, batch: int) -> None:
        import transformers

        best = folder / "best"  # which transformers reads as well
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        model = transformers.AutoModelForSequenceClassification.from_pretrained(best, num_labels=1).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(best)
        self.pipe = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
        self.batch = batch

    def __call__(self, pairs: list[Pair]) -> float:
        given = [{"text": a, "text_pair": b} for a, b in pairs]
        began = time.perf_counter()
        self.pipe(given, batch_size=self.batch, truncation=True)
        return time.perf_counter() - began


class CrossEncoderPredictions:
    """sentence-transformers' predict, which sorts by length."""

    def __init__(self, folder: Path) -> None:
        import transformers
        from sentence_transformers import CrossEncoder

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        self.model = CrossEncoder(str(folder / "best"), num_labels=1, device="cpu")

    def __call__(self, pairs: list[Pair]) -> float:
        began = time.perf_counter()
        self.model.predict(pairs, show_progress_bar=False)
        return time.perf_counter() - began
