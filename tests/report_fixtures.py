"""One run, one other to compare it with, and one study, all of a toy encoder, for every test of reports."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from hostile import HOSTILE
from manyheads import load_recipe, train
from manyheads.studies.runner import train_in_process
from manyheads.studies.study import OpenStudy, open_study


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
        "training.head_learning_rate": 1e-2,
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
    opened = open_study("papers/b2-transfer", "smoke", tmp_path_factory.mktemp("studies"), {}, seeds=[0, 1])
    for identity, planned in opened.runs:
        train_in_process(opened.folder, identity, planned)
    return opened
