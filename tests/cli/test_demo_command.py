"""`manyheads demo` with the real default encoder, cut short, and the real data where it is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import manyheads
from manyheads import load_recipe
from manyheads.tasks.load import load_tasks

TASKS = ("sentiment", "paraphrase", "similarity")


@pytest.mark.slow
def test_demo_trains_compares_and_predicts(tmp_path: Path) -> None:
    words = ["training.max_steps=2", "evaluate.max_examples=20", "--output", str(tmp_path)]
    few = [f"tasks.{task}.{limit}" for task in TASKS for limit in ("max_train=60", "max_dev=40")]
    result = manyheads("demo", *few, *words)
    assert result.returncode == 0, result.stderr
    for shown in (
        "frozen probe",
        "majority",
        "sentiment",
        "paraphrase",
        "similarity",
        "accuracy",
        "pearson",
        "overall",
    ):
        assert shown in result.stdout
    assert "Can a cat chase a dog? / Can a dog chase a cat?" in result.stdout
    assert "installed wheel" in result.stderr
    metrics = json.loads((tmp_path / "demo" / "metrics.json").read_text())
    assert metrics["dev"]["examples"] == dict.fromkeys(TASKS, 40)
    assert metrics["frozen"]["examples"] == metrics["dev"]["examples"]


def test_the_demo_has_four_hundred_dev_examples_of_each_task() -> None:
    loaded = load_tasks(load_recipe("demo"))
    assert {name: len(data.dev) for name, data in loaded.items()} == dict.fromkeys(TASKS, 400)


@pytest.mark.slow
def test_papers_data_writes_the_courses_prediction_files(shared_data: Path, toy_encoder: Path, tmp_path: Path) -> None:
    """The recipe as shipped on the real files, with a small encoder: every dev and test row gets its prediction."""
    result = manyheads(
        "train", "best", f"data.root={shared_data}", f"encoder={toy_encoder}", f"output={tmp_path}",
        "training.max_steps=2", "evaluate.max_examples=50", "training.probe=false", "tasks.qqp.max_train=2000",
        "report=false",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("qqp: 2 bad rows of dev skipped") == 2
    folder = tmp_path / "best" / "predictions"
    files = {file.name: file.read_text().splitlines() for file in folder.iterdir()}
    rows = {name: len(lines) - 1 for name, lines in files.items()}
    assert rows == {
        "sst-dev-output.csv": 1101, "sst-test-output.csv": 2210, "para-dev-output.csv": 20212,
        "sts-dev-output.csv": 863, "sts-test-output.csv": 1725,
    }  # fmt: skip
    assert files["sst-test-output.csv"][0] == "id \t Predicted_Sentiment "
    first, comma, value = files["sst-test-output.csv"][1].split()
    assert (len(first), comma) == (25, ",")  # ids in spite of the file's shifted header
    assert value in "01234"
