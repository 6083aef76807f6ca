"""Single inputs of many callers, tokenised one by one and answered together. Nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from manyheads.data.words import TextWords
from manyheads.tasks.task import Task

Answer = dict[str, dict[str, Any]]  # task → {'prediction': …} and, for classes, their probabilities
Words = list[dict[str, Any]]  # {'side', 'start', 'end', 'weight'}: a word's place in its text, and how much it mattered


@dataclass(frozen=True)
class TextInput:
    """One text or a pair, and who reads it. Without tasks it is embedded."""

    texts: tuple[str, ...]
    tasks: tuple[Task, ...] = ()
    words_given: bool = False  # whether the text is a list of words, joined


@dataclass(frozen=True)
class Prepared:
    """A text input as a backend wants it."""

    texts: tuple[str, ...]
    tasks: tuple[Task, ...]
    encoder_inputs: Any  # the backend's own
    tokens: int  # that the encoder reads; what tasks read alike counts once
    truncated: bool
    words: dict[str, TextWords] = field(default_factory=dict)  # of tasks that predict for each word


class ServingBackend(Protocol):
    """What a server asks of a backend. `prepare` may run in one thread while another runs `answer`."""

    tasks: dict[str, Task]
    about: dict[str, Any]  # which step the model is of, and on what it was chosen
    max_length: int  # tokens of an encoder input
    tokens_per_pass: int
    explains: bool  # whether it has gradients

    def prepare(self, inputs: list[TextInput]) -> list[Prepared]:
        """Tokenise inputs, in their order."""
        ...

    def answer(self, prepared: list[Prepared]) -> list[Answer]:
        """The predictions of every input's tasks, single texts and pairs, from one encoder pass."""
        ...

    def embed_prepared(self, prepared: list[Prepared]) -> np.ndarray:
        """[inputs, width] float32: the embeddings of inputs without tasks."""
        ...

    def explain(self, prepared: Prepared) -> dict[str, Words]:
        """Of each task, which words mattered."""
        ...
