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
from manyheads.reports.changes import changed_settings, comparable, example_changes, metric_changes
from manyheads.reports.facts import RunFacts, TaskPredictions
from manyheads.reports.pages.comparison import compare_report


def answered(labels: Any, predictions: Any, right: Any) -> TaskPredictions:
    texts = [(f"example {i}",) for i in range(len(right))]
    return TaskPredictions(a_task(labels=labels), np.array(predictions, dtype=float), np.array(right), texts)


def test_classes_that_changed_in_each_direction() -> None:
    right = [1, 1, 0, 0]
    before = answered(TWO, [[0.8, 0.2], [0.4, 0.6], [0.9, 0.1], [0.6, 0.4]], right)
    after = answered(TWO, [[0.1, 0.9], [0.7, 0.3], [0.6, 0.4], [0.2, 0.8]], right)
    found = example_changes(before, after)
    # 0 became right, 1 and 3 wrong; 2 is less sure, but still right
    assert [one.texts[0] for one in found["better"].worst] == ["example 0"]
    assert found["better"].worst[0].size == pytest.approx(0.7)
    assert [(one.texts[0], one.before, one.after) for one in found["worse"].worst] == [
        ("example 3", "no", "yes"), ("example 1", "yes", "no")
    ]  # fmt: skip
    assert (found["better"].count, found["worse"].count) == (1, 2)


def test_numbers_that_changed_by_more_than_a_tenth_of_the_scale() -> None:
    before = answered(NUMBERS, [1.0, 4.0, 2.0], [2.0, 4.0, 2.0])
    after = answered(NUMBERS, [1.9, 3.0, 2.4], [2.0, 4.0, 2.0])  # the scale is 0 to 5
    found = example_changes(before, after)
    assert [one.texts[0] for one in found["better"].worst] == ["example 0"]
    assert [one.texts[0] for one in found["worse"].worst] == ["example 1"]
    assert found["worse"].worst[0].size == pytest.approx(1.0)


def test_what_two_runs_have_in_common(smoke_run: Path, other_run: Path) -> None:
    before, after = RunFacts(smoke_run), RunFacts(other_run)
    tasks, notes = comparable(before, after)
    assert tasks == ["sst", "sts"]
    assert notes == ["Task qqp is in learnt only."]
    changes = {one.task: one for one in metric_changes(before, after, tasks)}
    for task, one in changes.items():
        own = [facts.metrics["dev"]["metrics"][task][one.metric] for facts in (before, after)]
        assert one.difference.mean == pytest.approx(own[1] - own[0])
    assert changes["sts"].difference.half_width > 0
    said = {row["setting"]: (row["learnt"], row["plain"]) for row in changed_settings(before, after)}
    assert said["combine.losses"] == ("uncertainty", "sum")
    assert said["task qqp"] == ("yes", "–")
    assert not any(setting.startswith("tasks.qqp") for setting in said)
    assert "name" not in said
    assert "seed" not in said


def test_a_page_of_two_runs(smoke_run: Path, other_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "two.html"
    result = manyheads("report", smoke_run, other_run, "--output", file, "--figures", tmp_path / "figures")
    assert result.returncode == 0, result.stderr
    text = file.read_text(encoding="utf-8")
    assert "learnt and plain: comparison of runs" in text
    assert "Task qqp is in learnt only." in text
    assert {one.name for one in (tmp_path / "figures").iterdir()} == {"changes.svg", "curves.svg"}
    twin = tmp_path / smoke_run.parent.name / "copy"
    shutil.copytree(smoke_run, twin)
    page, _ = compare_report([other_run, smoke_run, twin])
    assert "learnt (3)" in page, "runs of one name and folder's name are told apart"
    check_refused(manyheads("report", smoke_run, smoke_run), "named twice")


def test_runs_that_cannot_be_compared(smoke_run: Path, tmp_path: Path) -> None:
    changes = {"output": str(tmp_path), "tasks.sst.max_dev": 20, "tasks": ["sst"], "report": False}
    other = train(load_recipe("scales/smoke", changes), quiet=True).folder
    check_refused(manyheads("report", smoke_run, other), "nothing to compare", "different dev examples")
    check_refused(manyheads("report", smoke_run, "seed=3"), "only studies take settings")
    (other / "metrics.json").unlink()
    check_refused(manyheads("report", smoke_run, other), "not finished")
