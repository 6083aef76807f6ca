"""How fast tags of words are trained, beside transformers' Trainer with its token-classification collator: in turns, on
the same rows.

    python benchmarks/tags.py FILE [--text tokens] [--label slots] [--batch N] [--turns N] [--steps N]

FILE is jsonl with lists of words and of tags. Default encoder, float32, dropout .1, the label on the
first piece of each word. Both read the same rows in a turn, texts tokenised before; ratios are taken within a turn.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import datasets
import transformers

from apart import Apart
from manyheads.console import Reporter
from manyheads.tasks.resolve import load_recipe
from manyheads.training.schedule import set_trainable
from manyheads.training.setup import assemble
from manyheads.training.trainer import Trainer
from side_by_side import machine
from training_rivals import BATCH, SETTINGS, _quiet, _set_dropout, _Watch

IGNORED = -100
Rows = list[tuple[list[str], list[int]]]  # words and tags of each


class Ours:
    """manyheads' own loop: the sampler, inputs, packing, forward, backward, clipping, AdamW, the log."""

    def __init__(self, file: Path, text: str, label: str, folder: str, batch: int) -> None:
        recipe: dict[str, Any] = {
            "name": "tags",
            "output": folder,
            "tasks": {"tags": {"train": str(file.resolve()), "text": text, "label": label}},
            "training": {"batch_size": batch, "learning_rate": 1e-6, "epochs": 50, "conflicts": 0, "probe": False},
        }
        self.setup = assemble(load_recipe(recipe), Reporter(quiet=True))
        self.trainer = Trainer(self.setup, Path(folder) / "run")
        self.trainer.open(overwrite=True)
        set_trainable(self.setup.model, self.setup.schedule.phases[0])

    def __call__(self, stretch: range) -> float:
        began = time.perf_counter()
        for step in stretch:
            self.trainer.progress.step = step
            self.trainer.step(False)
        return time.perf_counter() - began

    def rows(self, stretch: range) -> list[Rows]:
        """The words and tags of these steps, for the other."""
        data = self.setup.datasets.train["tags"]
        words = data.task.kind.words(data.examples, data.task)
        steps: list[Rows] = []
        for step in stretch:
            rows: Rows = []
            for batches in self.setup.rounds(step):
                for batch in batches:
                    for row in batch.indices.tolist():
                        text = words[row]
                        labels = data.word_labels([row]).tolist()
                        rows.append(([text.text[start:end] for start, end in text.spans], labels))
            steps.append(rows)
        return steps


class TrainerRival:
    """transformers' Trainer and DataCollatorForTokenClassification, as its users write it."""

    def __init__(self, encoder: Path, classes: int, batch: int) -> None:
        self.batch = batch
        self.model = transformers.AutoModelForTokenClassification.from_pretrained(encoder, num_labels=classes)
        _set_dropout(self.model, 0.1)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)

    def __call__(self, steps: list[Rows]) -> float:
        rows = [self._row(*row) for step in [steps[0], *steps] for row in step]  # the first step is for warming up
        with tempfile.TemporaryDirectory() as folder, _quiet():
            arguments = transformers.TrainingArguments(
                output_dir=folder,
                **{**SETTINGS, "per_device_train_batch_size": self.batch},
                train_sampling_strategy="sequential",
            )
            watch = _Watch()
            transformers.Trainer(
                self.model,
                arguments,
                train_dataset=datasets.Dataset.from_list(rows),
                data_collator=transformers.DataCollatorForTokenClassification(self.tokenizer),
                callbacks=[watch],
            ).train()
        return watch.seconds

    def _row(self, words: list[str], tags: list[int]) -> dict[str, Any]:
        encoded = self.tokenizer(words, is_split_into_words=True, truncation=True)
        labels: list[int] = []
        before: int | None = None
        for word in encoded.word_ids():
            labels.append(IGNORED if word is None or word == before else tags[word])
            before = word
        return {**encoded, "labels": labels}


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("file", type=Path)
    given.add_argument("--text", default="tokens")
    given.add_argument("--label", default="slots")
    given.add_argument("--batch", type=int, default=BATCH)
    given.add_argument("--turns", type=int, default=5)
    given.add_argument("--steps", type=int, default=8, help="optimizer steps per turn")
    options = given.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(options.file, options.text, options.label, folder, options.batch)
        classes = len(ours.setup.model.tasks["tags"].labels.names)
        rival = Apart(TrainerRival, ours.setup.encoder_folder, classes, options.batch)
        ours(range(2))
        ratios: list[float] = []
        rates: list[float] = []
        for turn in range(options.turns + 1):
            stretch = range(turn * options.steps, (turn + 1) * options.steps)
            other = rival(ours.rows(stretch))
            own = ours(stretch)
            if turn:  # in the first everything is warmed up
                ratios.append(other / own)
                rates.append(options.steps * options.batch / own)
        rival.stop()
    print(f"{machine()}; {options.file.name}, batch {options.batch}; {options.turns} turns of {options.steps} steps.")
    print(f"transformers Trainer ÷ manyheads: {statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})")
    print(f"manyheads: {statistics.median(rates):.1f} sentences/s")


if __name__ == "__main__":
    main()
