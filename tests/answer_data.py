"""Small questions whose answers stand in a text: men ask for the animal in it, tea is had with the film or the book."""

from __future__ import annotations

import random
from typing import Any

from choice_data import FITTING

FILLING = ("was", "very", "good", "new", "runs", "sleeps", "not", "hotel", "coffee")


def answer_rows(count: int, seed: int, no_answers: float = 0.25, longest: int = 6) -> list[dict[str, Any]]:
    """A text of a few words with 'red NOUN' for each kind of noun; a share of questions asks for what is not there."""
    drawn = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        asked = drawn.choice(sorted(FITTING))
        other = "tea" if asked == "men" else "men"
        parts = [f"red {drawn.choice(FITTING[other])}"]
        answer = f"red {drawn.choice(FITTING[asked])}"
        has_answer = drawn.random() >= no_answers
        if has_answer:
            parts.append(answer)
        parts += drawn.choices(FILLING, k=drawn.randint(2, longest))
        drawn.shuffle(parts)
        context = " ".join(parts)
        answers: dict[str, list[Any]] = {"text": [], "answer_start": []}
        if has_answer:
            answers = {"text": [answer], "answer_start": [context.index(answer)]}
        rows.append({"id": f"q{number}", "question": f"the {asked} ?", "context": context, "answers": answers})
    return rows
