"""What a task costs by itself: a step of the same 60 examples, shared among 3 to 30 tasks.

    python benchmarks/many_tasks.py [--turns N] [--write]

Default encoder, generated sentences, every task with a head, a loss and a log of its own. Steps of all numbers of
tasks are timed in turns. --write puts the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from manyheads.console import Reporter
from manyheads.tasks.resolve import load_recipe
from manyheads.training.schedule import set_trainable
from manyheads.training.setup import assemble
from manyheads.training.trainer import Trainer
from side_by_side import machine, peak_memory, write_block
from train import spread

EXAMPLES = 60
SIZES = (3, 6, 15, 30)


def trainer_of(count: int, folder: str) -> Trainer:
    task = {"train": "demo:sentiment", "max_train": 600, "max_dev": 10}
    recipe = {
        "name": f"tasks-{count}",
        "output": folder,
        "data": {"together": False},  # else all of them would be encoded once
        "tasks": {f"task{number}": task for number in range(count)},
        "training": {"batch_size": EXAMPLES // count, "epochs": 50, "learning_rate": 1e-6, "conflicts": 0},
    }
    setup = assemble(load_recipe(recipe), Reporter(quiet=True))
    trainer = Trainer(setup, Path(folder) / f"tasks-{count}")
    trainer.open(overwrite=True)
    set_trainable(setup.model, setup.schedule.phases[0])
    return trainer


def step(trainer: Trainer, number: int) -> None:
    trainer.progress.step = number
    trainer.step(False)


def measure(turns: int) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        trainers = {count: trainer_of(count, folder) for count in SIZES}
        taken: dict[int, list[float]] = {count: [] for count in SIZES}
        for turn in range(-3, turns):
            for count, trainer in trainers.items():
                began = time.perf_counter()
                step(trainer, turn + 3)
                if turn >= 0:
                    taken[count].append(time.perf_counter() - began)
        memory = {
            count: peak_memory(lambda number, trainer=trainer: step(trainer, number))
            for count, trainer in trainers.items()
        }
    lines = ["| tasks | time ÷ 3 tasks | ms more per further task | memory of a step (MB) |", "|---|---|---|---|"]
    for count in SIZES:
        ratios = [a / b for a, b in zip(taken[count], taken[SIZES[0]], strict=True)]
        more = [1000 * (a - b) / max(1, count - 3) for a, b in zip(taken[count], taken[SIZES[0]], strict=True)]
        shown = "–" if count == SIZES[0] else spread(more)
        lines.append(f"| {count} | {spread(ratios)} | {shown} | {memory[count]:.0f} |")
    return lines


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--turns", type=int, default=40)
    given.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    options = given.parse_args()
    lines = [f"{machine()}; {EXAMPLES} examples per step, {options.turns} turns.", "", *measure(options.turns)]
    print("\n".join(lines))
    if options.write:
        write_block("many tasks", lines)


if __name__ == "__main__":
    main()
