"""A model folder with every kind of task, saved without a training; its weights are random but fixed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from building import MULTI, NUMBERS, ORDINAL, SINGLE, TWO, a_task, toy_model
from manyheads.model.folder import save_model


@pytest.fixture(scope="session")
def saved_model(toy_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tasks = [
        a_task(name="mood", labels=ORDINAL, encoding="single"),
        a_task(name="topics", labels=MULTI, encoding="single", pooling="mean"),
        a_task(name="length", labels=NUMBERS, encoding="single", columns=SINGLE, head="mlp"),
        a_task(name="same", labels=TWO, encoding="cross"),
        a_task(name="near", labels=NUMBERS, encoding="bi-shared", pooling="lstm"),
    ]
    model = toy_model(toy_encoder, tasks, dropout=0.1, attention_dropout=0.1)
    folder = tmp_path_factory.mktemp("models") / "best"
    save_model(folder, model, toy_encoder, {"run": "toy", "step": 3})
    return folder


@pytest.fixture
def model_folder(saved_model: Path, tmp_path: Path) -> Path:
    """A copy of its own for tests that spoil it."""
    return Path(shutil.copytree(saved_model, tmp_path / "copied" / "best"))
