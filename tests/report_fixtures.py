"""One run, one other to compare it with, and one study, all of a toy encoder, for every test of reports."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostile import HOSTILE
from manyheads import load_recipe, train
from manyheads.studies.runner import train_in_process
from manyheads.studies.study import OpenStudy, open_study


def copied(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """What one process of the test session made, in a folder of this process's own."""
    from conftest import made_once  # which imports this module

    return Path(shutil.copytree(made_once(factory, name, make), factory.mktemp(name) / "copy"))


@pytest.fixture(scope="session")
def report_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two runs below in one folder."""

    def make(folder: Path) -> None:
        train_learnt(folder)
        train_plain(folder)

    return copied(tmp_path_factory, "report-runs", make)


@pytest.fixture(scope="session")
def smoke_run(report_runs: Path) -> Path:
    """The papers' three tasks on a toy, with weights that are learnt and conflicts measured, in two phases."""
    return report_runs / "learnt"


@pytest.fixture(scope="session")
def other_run(report_runs: Path) -> Path:
    """The same tasks, trained longer and otherwise, and without two of them."""
    return report_runs / "plain"


def train_learnt(folder: Path) -> None:
    changes = {
        "name": "learnt",
        "output": str(folder),
        "combine": "uncertainty",
        "training.conflicts": 0.5,
        "training.max_steps": None,
        "training.learning_rate": 3e-3,
        "training.head_learning_rate": 1e-2,
        "phases": [{"epochs": 1, "tasks": ["sst"]}, {"epochs": 2}],
        "report": False,
    }
    train(load_recipe("scales/smoke", changes), quiet=True)


def train_plain(folder: Path) -> None:
    changes = {
        "name": "plain",
        "output": str(folder),
        "training.epochs": 6,
        "training.max_steps": None,
        "training.learning_rate": 3e-3,
        "tasks": ["sst", "sts"],
        "report": False,
    }
    train(load_recipe("scales/smoke", changes), quiet=True)


@pytest.fixture(scope="session")
def hostile_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight tasks of texts and classes that would break a careless page: markup, signs, long words, many classes."""
    folder = tmp_path_factory.mktemp("hostile")
    odd = ["<b>bold</b>", "_hidden", "$a_{b$", "زبان", ' id="x" #1b1b1c', "a very long name of a class " * 3]
    kinds = {"odd": odd, "many": [f"intent class {number}" for number in range(30)], "two": ["no", "yes"]}
    tasks: dict[str, Any] = {}
    for name in ("odd", "many", "two", "Two", *(f"more-{number}" for number in range(4))):
        classes = kinds.get(name.lower(), ["no", "yes"])
        with (folder / f"{len(tasks)}.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["sentence", "label"])
            rows.writerows([f"{HOSTILE[i % 5]} {name} {i}", classes[i % len(classes)]] for i in range(120))
        tasks[name] = {"train": f"{len(tasks)}.csv"}
    with (folder / "several.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["sentence", "label"])
        rows.writerows([f"{HOSTILE[i % 5]} {i}", ["red|blue", "red", "green|blue"][i % 3]] for i in range(60))
    tasks["several"] = {"train": "several.csv", "kind": "multi-label", "separator": "|"}
    recipe = {
        "name": "$a_{b$ <i>run",
        "encoder": "toy",
        "data": {"root": str(folder), "dev_share": 0.5},
        "tasks": tasks,
        "training": {"epochs": 1, "conflicts": 0.5},
        "combine": "uncertainty",
        "output": str(folder / "runs"),
        "report": False,
    }
    return train(load_recipe(recipe), quiet=True).folder


@pytest.fixture(scope="session")
def finished_study(tmp_path_factory: pytest.TempPathFactory) -> OpenStudy:
    """Paper B's transfer study at its smallest, two seeds."""

    def open_in(folder: Path) -> OpenStudy:
        return open_study("papers/b2-transfer", "smoke", folder, {}, seeds=[0, 1])

    def make(folder: Path) -> None:
        opened = open_in(folder)
        for identity, planned in opened.runs:
            train_in_process(opened.folder, identity, planned)

    return open_in(copied(tmp_path_factory, "report-study", make))
