"""A model's export, made once for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from building import CLASSES, NUMBERS, TWO, a_task, toy_model
from conftest import made_once
from manyheads.exporting.folder import export
from manyheads.model.folder import save_model


def write_model(folder: Path, encoder: Path) -> None:
    tasks = [
        a_task(name="mood", labels=CLASSES, encoding="single", temperature=1.4),
        a_task(name="same", labels=TWO, encoding="cross"),
        a_task(name="near", labels=NUMBERS, encoding="bi-features"),
    ]
    save_model(folder / "best", toy_model(encoder, tasks), encoder, {"run": "toy", "step": 3})
    export(folder / "best", folder / "exported")


@pytest.fixture(scope="session")
def exported(toy_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder's export in float32."""
    return made_once(tmp_path_factory, "exported", lambda folder: write_model(folder, toy_encoder)) / "exported"
