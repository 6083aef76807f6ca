"""A small corpus for three tasks: a demonstration, not a benchmark. It ships with the package.

`tools/demo_corpus` generated the files. Dev and test use words and sentence patterns that train does not have.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections import Counter
from functools import cache
from importlib.resources import files

from manyheads.errors import UserError, nearest

TASKS = ("sentiment", "paraphrase", "similarity")
SPLITS = ("train", "dev", "test")


@cache  # a study opens the same files for each of its runs
def demo_rows(task: str, split: str) -> tuple[dict[str, str], ...]:
    """The rows of one split, all values as strings."""
    if task not in TASKS:
        raise UserError(f"Unknown demo task '{task}'.{nearest(task, TASKS)}", code="unknown-demo-task")
    if split not in SPLITS:
        raise UserError(f"Unknown demo split '{split}'.{nearest(split, SPLITS)}", code="unknown-demo-split")
    content = files("manyheads").joinpath("recipes", "demo", f"{task}-{split}.csv.gz").read_bytes()
    lines = gzip.decompress(content).decode().splitlines()
    return tuple(csv.DictReader(lines))


def demo_vocabulary() -> list[str]:
    """Every word of the training texts, in lower case, the most frequent first."""
    counts: Counter[str] = Counter()
    for task in TASKS:
        for row in demo_rows(task, "train"):
            for column, value in row.items():
                if column.startswith("sentence"):
                    counts.update(re.findall(r"\w+|[^\w\s]", value.lower()))
    return [word for word, _ in counts.most_common()]
