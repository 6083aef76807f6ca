"""Two runs on one page: which metrics differ, how sure that is, which examples changed, which settings."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from building import NUMBERS, TWO, a_task
from command import check_refused, manyheads
from manyheads import load_recipe, train
from manyheads.errors import UserError
from manyheads.reports.changes import changed_settings, comparable_tasks, example_changes, metric_changes
from manyheads.reports.facts import RunFacts
from manyheads.reports.pages.comparison import comparison_report
from manyheads.reports.task_predictions import TaskPredictions


def predictions_of(reader: Any, predictions: Any, labels: Any) -> TaskPredictions:
    texts = [(f"example {row}",) for row in range(len(labels))]
    return TaskPredictions(a_task(labels=reader), np.array(predictions, dtype=float), np.array(labels), texts)


def code_of(folders: list[Path]) -> str:
    with pytest.raises(UserError) as refused:
        comparison_report(folders)
    return refused.value.code


def test_classes_that_changed_in_each_direction() -> None:
    labels = [1, 1, 0, 0]
    before = predictions_of(TWO, [[0.8, 0.2], [0.4, 0.6], [0.9, 0.1], [0.6, 0.4]], labels)
    after = predictions_of(TWO, [[0.1, 0.9], [0.7, 0.3], [0.6, 0.4], [0.2, 0.8]], labels)
    changes = example_changes(before, after)
    # 0 became correct, 1 and 3 wrong; 2 is less confident, but still correct
    assert [example.texts[0] for example in changes["better"].largest] == ["example 0"]
    assert changes["better"].largest[0].size == pytest.approx(0.7)
    assert [(example.texts[0], example.before, example.after) for example in changes["worse"].largest] == [
        ("example 3", "no", "yes"), ("example 1", "yes", "no")
    ]  # fmt: skip
    assert (changes["better"].count, changes["worse"].count) == (1, 2)


def test_numbers_that_changed_by_more_than_a_tenth_of_the_scale() -> None:
    before = predictions_of(NUMBERS, [1.0, 4.0, 2.0], [2.0, 4.0, 2.0])
    after = predictions_of(NUMBERS, [1.9, 3.0, 2.4], [2.0, 4.0, 2.0])  # the scale is 0 to 5
    changes = example_changes(before, after)
    assert [example.texts[0] for example in changes["better"].largest] == ["example 0"]
    assert [example.texts[0] for example in changes["worse"].largest] == ["example 1"]
    assert changes["worse"].largest[0].size == pytest.approx(1.0)


def test_what_two_runs_have_in_common(smoke_run: Path, other_run: Path) -> None:
    before, after = RunFacts(smoke_run), RunFacts(other_run)
    tasks, notes = comparable_tasks(before, after)
    assert tasks == ["sst", "sts"]
    assert notes == ["Task qqp is in learnt only."]
    changes = {change.task: change for change in metric_changes(before, after, tasks)}
    for task, change in changes.items():
        values = [facts.metrics["dev"]["metrics"][task][change.metric] for facts in (before, after)]
        assert change.difference.mean == pytest.approx(values[1] - values[0])
    assert changes["sts"].difference.half_width > 0
    settings = {row["setting"]: (row["learnt"], row["plain"]) for row in changed_settings(before, after)}
    assert settings["combine.losses"] == ("uncertainty", "sum")
    assert settings["task qqp"] == ("yes", "–")
    assert not any(setting.startswith("tasks.qqp") for setting in settings)
    assert "name" not in settings
    assert "seed" not in settings


@pytest.mark.slow
def test_a_page_of_two_runs(smoke_run: Path, other_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "two.html"
    result = manyheads("report", smoke_run, other_run, "--output", file, "--figures", tmp_path / "figures")
    assert result.returncode == 0, result.stderr
    text = file.read_text(encoding="utf-8")
    assert "learnt and plain: comparison of runs" in text
    assert "Task qqp is in learnt only." in text
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {"changes.svg", "curves.svg"}
    twin = tmp_path / smoke_run.parent.name / "copy"
    shutil.copytree(smoke_run, twin)
    page = comparison_report([other_run, smoke_run, twin]).html
    assert "learnt (3)" in page, "runs of one name and one folder's name have different labels"
    check_refused(manyheads("report", smoke_run, smoke_run), "named twice")
    assert code_of([smoke_run, smoke_run]) == "repeated-run"


@pytest.mark.slow
def test_runs_that_cannot_be_compared(smoke_run: Path, tmp_path: Path) -> None:
    changes = {"output": str(tmp_path), "tasks.sst.max_dev": 20, "tasks": ["sst"], "report": False}
    other = train(load_recipe("scales/smoke", changes), quiet=True).folder
    check_refused(manyheads("report", smoke_run, other), "nothing to compare", "different dev examples")
    assert code_of([smoke_run, other]) == "nothing-to-compare"
    check_refused(manyheads("report", smoke_run, "seed=3"), "only studies take settings")
    (other / "metrics.json").unlink()
    check_refused(manyheads("report", smoke_run, other), "not finished")
    assert code_of([smoke_run, other]) == "unfinished-run"
