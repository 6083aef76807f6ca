"""One run, one other to compare it with, and one study, all of a toy encoder, for every test of reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from manyheads import load_recipe, train
from manyheads.study.run import run_here
from manyheads.study.smoke import open_smoke
from manyheads.study.study import OpenStudy


@pytest.fixture(scope="session")
def smoke_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The papers' three tasks on a toy, with weights that are learnt and conflicts measured, in two phases."""
    changes = {
        "name": "learnt",
        "output": str(tmp_path_factory.mktemp("report")),
        "combine": "uncertainty",
        "training.conflicts": 0.5,
        "training.max_steps": None,
        "training.learning_rate": 3e-3,
        "training.head_rate": 1e-2,
        "phases": [{"epochs": 1, "tasks": ["sst"]}, {"epochs": 2}],
        "report": False,
    }
    return train(load_recipe("scales/smoke", changes), quiet=True).folder


@pytest.fixture(scope="session")
def other_run(smoke_run: Path) -> Path:
    """The same tasks, trained longer and otherwise, and without two of them."""
    changes = {
        "name": "plain",
        "output": str(smoke_run.parent),
        "training.epochs": 6,
        "training.max_steps": None,
        "training.learning_rate": 3e-3,
        "tasks": ["sst", "sts"],
        "report": False,
    }
    return train(load_recipe("scales/smoke", changes), quiet=True).folder


@pytest.fixture(scope="session")
def finished_study(tmp_path_factory: pytest.TempPathFactory) -> OpenStudy:
    """Paper B's transfer study at its smallest, two seeds."""
    opened = open_smoke("papers/b2-transfer", tmp_path_factory.mktemp("studies"))
    opened.study.seeds = [0, 1]
    for identity, planned in opened.runs:
        run_here(opened.place, identity, planned)
    return opened
