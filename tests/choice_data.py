"""Small questions with candidates, which the question decides: men see animals, tea is had with a film or a book."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

FITTING = {"men": ("dog", "cat"), "tea": ("film", "book")}
LETTERS = "ABC"


def choice_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Two or three candidates, of which one fits the question; its place is drawn."""
    drawn = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for _ in range(count):
        asked = drawn.choice(sorted(FITTING))
        other = "tea" if asked == "men" else "men"
        right = drawn.choice(FITTING[asked])
        nouns = [right, *drawn.sample(FITTING[other], drawn.choice((1, 2)))]
        drawn.shuffle(nouns)
        candidates = [f"the {drawn.choice(('red', 'good', 'new'))} {noun}" for noun in nouns]
        rows.append({"question": f"the {asked} ?", "choices": candidates, "answer": LETTERS[nouns.index(right)]})
    return rows


def write_rows(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file
