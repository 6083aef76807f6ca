"""The backend that runs a model folder with PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from manyheads.data.dataset import Dataset
from manyheads.errors import UserError
from manyheads.inference import torch_requests
from manyheads.inference.embeddings import embed_column
from manyheads.inference.predict import predict_tasks
from manyheads.inference.predictor import Progress
from manyheads.inference.prepared import Answer, Prepared, TextInput, Words
from manyheads.inference.search import embed_search_texts
from manyheads.model.folder import load_model
from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.storage.ragged import Column
from manyheads.tasks.task import Task
from manyheads.tokens.column import TokenColumn, tokenise_once


class TorchBackend:
    """A model in eval mode, which stays in it: threads share it, and none of them changes it."""

    explains = True  # has gradients

    def __init__(self, model: ManyHeads, about: dict[str, Any], tokens_per_pass: int) -> None:
        self.model = model.eval()
        self.tasks = model.tasks
        self.about = about
        self.max_length = model.max_length
        self.tokens_per_pass = tokens_per_pass

    @classmethod
    def open(cls, folder: Path, tokens_per_pass: int) -> TorchBackend:
        model, about = load_model(folder)
        return cls(model, about, tokens_per_pass)

    def run(self, tasks: list[Task], examples: Dataset, progress: Progress) -> dict[str, Column]:
        first = next((task for task in tasks if task.kind.in_windows), tasks[0])  # others can do with its tokens
        tokens = TaskTokens(first, examples, self.model.tokenizer, cached=False)
        self._check_vocabulary(tokens.texts, examples)
        data = {task.name: tokens.of(task) for task in tasks}
        return predict_tasks(self.model, data, self.tokens_per_pass, progress=progress)

    def embed(self, examples: Dataset, task: str | None = None) -> np.ndarray:
        texts = tokenise_once(examples.texts[0], self.model.tokenizer)
        self._check_vocabulary((texts,), examples)
        if task is not None:
            return embed_search_texts(self.model, task, texts, self.tokens_per_pass)
        return embed_column(self.model, texts, self.tokens_per_pass)

    def prepare(self, inputs: list[TextInput]) -> list[Prepared]:
        return torch_requests.prepare(self.model, inputs)

    def answer(self, prepared: list[Prepared]) -> list[Answer]:
        return torch_requests.answer(self.model, prepared)

    def embed_prepared(self, prepared: list[Prepared]) -> np.ndarray:
        return torch_requests.embed(self.model, prepared)

    def explain(self, prepared: Prepared) -> dict[str, Words]:
        return torch_requests.explain(self.model, prepared)

    def _check_vocabulary(self, texts: tuple[TokenColumn, ...], examples: Dataset) -> None:
        """A tokenizer with more tokens than the encoder has embeddings fails on the texts that have them."""
        vocabulary = len(self.model.encoder.words)
        for column in texts:
            unknown = np.flatnonzero(column.ids >= vocabulary)
            if len(unknown):
                row = int(np.searchsorted(column.starts, unknown[0], side="right")) - 1
                location = examples.location(row)
                reason = f"its token {column.ids[unknown[0]]} is not among the encoder's {vocabulary}"
                raise UserError(f"{location}: {reason}: the tokenizer is another model's.", code="unknown-token")
