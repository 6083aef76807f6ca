"""How large a report of many dev examples is, and how long it takes to make.

    python benchmarks/report.py [--examples 20000]

Three tasks (ordinal classes, pairs with two classes, graded pairs) with so many dev examples each, made on the spot,
and a tiny encoder: what is measured is the report, not the training.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from manyheads import load_recipe, train
from manyheads.encoder import toy
from manyheads.reports.write import write_report

WORDS = [word for word in toy.WORDS if word.isalpha()]


def write_task(file: Path, rows: int, pair: bool, classes: int) -> None:
    """Sentences of known words; a pair's grade is the share of words it has in common."""
    draw = random.Random(file.name)
    titles = "id,sentence1,sentence2,label" if pair else "id,sentence,label"
    lines = [titles]
    for number in range(rows):
        words = draw.choices(WORDS, k=draw.randint(5, 25))
        texts = [" ".join(words)]
        label = sum(map(len, words)) % classes if classes else 0.0
        if pair:
            kept = [word if draw.random() < 0.7 else draw.choice(WORDS) for word in words]
            same = sum(a == b for a, b in zip(words, kept, strict=True)) / len(words)
            texts.append(" ".join(kept))
            label = int(same > 0.7) if classes else round(5 * same, 1)
        lines.append(",".join([str(number), *texts, str(label)]))
    file.write_text("\n".join(lines) + "\n")


def measure(examples: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tasks = {}
        for task, pair, classes in (("rating", False, 5), ("same", True, 2), ("near", True, 0)):
            write_task(folder / f"{task}.csv", 400, pair, classes)
            write_task(folder / f"{task}-dev.csv", examples, pair, classes)
            tasks[task] = {"train": f"{task}.csv", "dev": f"{task}-dev.csv"}
        tasks["rating"]["kind"] = "ordinal"
        tasks["near"] |= {"kind": "regression", "range": [0, 5]}
        recipe = {
            "encoder": "toy",
            "tasks": tasks,
            "data": {"root": name},
            "output": name,
            "training": {"epochs": 2, "batch_size": 16},
            "report": False,
        }
        run = train(load_recipe(recipe), quiet=True)
        began = time.monotonic()
        file = write_report(run.folder)
        print(f"{examples:,} dev examples of each of 3 tasks: {file.stat().st_size / 1e6:.2f} MB")
        print(f"made in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=20_000)
    measure(parser.parse_args().examples)
