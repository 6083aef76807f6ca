"""How fast a trained model predicts, beside what a user would pick instead: in turns, on the same unsorted texts.

    python benchmarks/infer.py [--data FOLDER] [--turns N] [--pairs N] [--write]

Default encoder, float32, from texts to predictions, tokenising included. With --data the pairs are Quora's and STS's,
as many of each, in random order; else generated ones. Second table: several tasks that read the same sentences,
predicted from one encoder pass. --write puts the tables into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time

import numpy as np
import torch

import floor
from apart import Apart
from inference_rivals import CrossEncoderPredictions, Ours, Pair, Pipeline
from manyheads import Run, load_recipe, train
from manyheads.data.demo import demo_rows
from manyheads.encoder.bert import Bert
from manyheads.inference.predict import plan_passes
from manyheads.inference.texts import dataset_of_texts
from manyheads.model.task_tokens import TaskTokens
from manyheads.tasks.load import load_tasks
from side_by_side import machine, write_block
from train import spread

AIMS = {
    "transformers pipeline, batch 32": "3",
    "sentence-transformers CrossEncoder.predict": "1.6",
    "floor": "0.70",
}
TASK_COUNTS = (1, 2, 4, 8)  # tasks that read the same sentences


def small_run(data: str | None, folder: str) -> Run:
    """A run with a model to predict with; its quality does not matter."""
    source, root, task = ("best", {"data.root": data}, "qqp") if data else ("demo", {}, "paraphrase")
    changes = {
        **root,
        "output": folder,
        "name": "pairs",
        "tasks": [task],
        "tasks.*.max_train": 32,
        "tasks.*.max_dev": 32,
        "training.max_steps": 1,
        "report": False,
    }
    return train(load_recipe(source, changes), quiet=True)


def texts_of(data: str | None, count: int) -> list[Pair]:
    """Pairs of the pair tasks' train data, as many of each, in no order of length."""
    names = ["qqp", "sts"] if data else ["paraphrase", "similarity"]
    source, root = ("best", {"data.root": data}) if data else ("demo", {})
    tasks = load_tasks(load_recipe(source, {**root, "tasks": names, "tasks.*.max_train": -(-count // 2)}))
    columns = [[column.to_pylist() for column in tasks[name].train.texts] for name in names]
    pairs = [pair for one, other in columns for pair in zip(one, other, strict=True)]
    random.Random(0).shuffle(pairs)
    return [pairs[number % len(pairs)] for number in range(count)]


def rivals_of(run: Run) -> dict[str, Apart]:
    """Each in a process of its own."""
    return {
        "manyheads": Apart(Ours, run.folder),
        "transformers pipeline, batch 1": Apart(Pipeline, run.folder, 1),
        "transformers pipeline, batch 32": Apart(Pipeline, run.folder, 32),
        "sentence-transformers CrossEncoder.predict": Apart(CrossEncoderPredictions, run.folder),
    }


@torch.no_grad()
def products_of(run: Run, pairs: list[Pair], whole: bool) -> list[floor.Product]:
    """What must be multiplied to predict these pairs."""
    model = run.model
    (task,) = model.tasks.values()
    data = TaskTokens(task, dataset_of_texts(pairs, 2, task.name), model.tokenizer, cached=False)
    assert isinstance(model.encoder, Bert)
    found: list[floor.Product] = []
    for batches in plan_passes(model, {task.name: data}, {task.name: np.arange(len(pairs))}, 4096):
        packed = model.pack([(batch.task, batch.inputs) for batch in batches])
        found += floor.products(model.encoder, packed.tokens, whole, backward=False)
    return found


def padding(run: Run, pairs: list[Pair], batch: int) -> float:
    """How many times the word pieces of these pairs a batch of so many has, padded to its longest."""
    (task,) = run.model.tasks.values()
    data = TaskTokens(task, dataset_of_texts(pairs, 2, task.name), run.model.tokenizer, cached=False)
    lengths = [len(data.inputs(run.model, row)[0].ids) for row in range(len(pairs))]
    batches = [lengths[first : first + batch] for first in range(0, len(lengths), batch)]
    return sum(len(one) * max(one) for one in batches) / sum(lengths)


def measure(data: str | None, turns: int, count: int) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        run = small_run(data, folder)
        every = texts_of(data, count * (turns + 1))
        rivals = rivals_of(run)
        for one in rivals.values():
            one.wait()
        taken: dict[str, list[float]] = {name: [] for name in (*rivals, "floor", "floor, whole model")}
        for turn in range(turns + 1):
            pairs = every[turn * count : (turn + 1) * count]
            for name, prediction in rivals.items():
                seconds = prediction(pairs)
                if turn:
                    taken[name].append(seconds)
            for name, whole in (("floor", False), ("floor, whole model", True)):
                seconds = floor.run(products_of(run, pairs, whole))
                if turn:
                    taken[name].append(seconds)
        for one in rivals.values():
            one.stop()
        padded = padding(run, every, 32)
    lines = ["| | time ÷ manyheads | aim | pairs/s |", "|---|---|---|---|"]
    for name, seconds in taken.items():
        ratios = [one / own for one, own in zip(seconds, taken["manyheads"], strict=True)]
        rate = statistics.median(count / one for one in seconds)
        lines.append(f"| {name} | {spread(ratios)} | {AIMS.get(name, '')} | {rate:.0f} |")
    share = [100 * least / own for least, own in zip(taken["floor"], taken["manyheads"], strict=True)]
    floors = f"manyheads predicts at {spread(share, 0)} % of the matrix-product floor."
    return [*lines, "", f"{floors} Batches of 32 of these pairs, padded, have {padded:.2f} times their tokens."]


def measure_many_heads(turns: int, count: int) -> list[str]:
    """Several tasks on the same sentences: what they cost together, against the first alone."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"task{number}" for number in range(max(TASK_COUNTS))]
        task = {"train": "demo:sentiment", "max_train": 32, "max_dev": 32}
        recipe = {
            "name": "many-heads",
            "output": folder,
            "tasks": dict.fromkeys(names, task),
            "training": {"max_steps": 1},
            "report": False,
        }
        run = train(load_recipe(recipe), quiet=True)
        every = [row["sentence"] for row in demo_rows("sentiment", "train")]
        texts = [every[number % len(every)] + f" {number}" for number in range(count)]
        taken: dict[int, list[float]] = {size: [] for size in TASK_COUNTS}
        for turn in range(turns + 1):
            for size in TASK_COUNTS:
                began = time.perf_counter()
                tasks = [run.model.tasks[name] for name in names[:size]]
                run.predictor.predict_dataset(tasks, dataset_of_texts(texts, 1, names[0]))
                if turn:
                    taken[size].append(time.perf_counter() - began)
    lines = ["| tasks on the same sentences | time ÷ one task |", "|---|---|"]
    for size, seconds in taken.items():
        lines.append(f"| {size} | {spread([a / b for a, b in zip(seconds, taken[1], strict=True)])} |")
    return lines


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--data", help="a folder of the course's csv files")
    given.add_argument("--turns", type=int, default=20)
    given.add_argument("--pairs", type=int, default=256, help="pairs, or sentences, per turn")
    given.add_argument("--only", choices=("infer", "infer many heads"), help="one of the two tables")
    given.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md; needs --data")
    options = given.parse_args()
    what = "Quora and STS pairs" if options.data else "generated pairs"
    tables = {
        "infer": (f"{what}, unsorted", lambda: measure(options.data, options.turns, options.pairs)),
        "infer many heads": ("generated sentences", lambda: measure_many_heads(options.turns, options.pairs)),
    }
    for name, (what, measured) in tables.items():
        if options.only in (None, name):
            lines = [f"{machine()}; {options.turns} turns of {options.pairs} {what}.", "", *measured()]
            print("\n".join([*lines, ""]))
            if options.write and options.data:
                write_block(name, lines)


if __name__ == "__main__":
    main()
