"""Trackers by name: off unless named, told what the log is told."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command import check_refused, manyheads
from manyheads import load_recipe, train
from manyheads.runs.trackers import numbers_of

RecipeFile = Callable[..., Path]


@pytest.mark.slow
def test_tensorboard_gets_what_the_log_has(toy_recipe: Callable[..., dict[str, Any]]) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = train(load_recipe(toy_recipe(trackers=["tensorboard"])), quiet=True)
    told = accumulator.EventAccumulator(str(run.folder / "trackers" / "toy"))
    told.Reload()
    steps = [one for one in run.log() if one["event"] == "step"]
    seen = {(one.step, round(one.value, 4)) for one in told.Scalars("loss/mood")}
    assert seen == {(one["step"], round(one["loss"]["mood"], 4)) for one in steps if "mood" in one["loss"]}
    final = run.metrics["dev"]["metrics"]["near"]["pearson"]
    assert told.Scalars("end/near/pearson")[-1].value == pytest.approx(final, abs=1e-5)
    assert {"learning_rate", "gradient_norm", "dev/overall", "dev/mood/accuracy"} <= set(told.Tags()["scalars"])


@pytest.mark.slow
def test_nothing_is_tracked_unless_named(toy_recipe: Callable[..., dict[str, Any]]) -> None:
    run = train(load_recipe(toy_recipe()), quiet=True)
    assert not (run.folder / "trackers").exists()


@pytest.mark.slow
def test_trackers_that_cannot_be(recipe_file: RecipeFile) -> None:
    check_refused(manyheads("train", recipe_file(trackers=["tensorbord"])), "trackers", "Did you mean 'tensorboard'?")
    check_refused(manyheads("train", recipe_file(trackers=["clearml"])), "'clearml' is not installed")


def test_records_as_numbers() -> None:
    step = {
        "event": "step",
        "learning_rate": 0.1,
        "gradient_norm": 2,
        "loss": {"a": 1.5},
        "weights": {"a": 0.5},
        "phase": "1",
    }
    assert numbers_of(step) == {"learning_rate": 0.1, "gradient_norm": 2.0, "loss/a": 1.5, "weights/a": 0.5}
    dev = {"metrics": {"a": {"accuracy": 0.5, "f1": None}}, "overall": 0.5, "losses": {"a": 0.7}}
    assert numbers_of({"event": "evaluate", **dev}) == {"dev/overall": 0.5, "dev/a/loss": 0.7, "dev/a/accuracy": 0.5}
    assert numbers_of({"event": "end", "dev": dev})["end/a/accuracy"] == 0.5
    assert numbers_of({"event": "start"}) == {}


@pytest.mark.slow
def test_the_report_is_written_at_the_end(recipe_file: RecipeFile, toy_data: Path) -> None:
    result = manyheads("train", recipe_file(report=True))
    assert result.returncode == 0, result.stderr
    assert "report → " in result.stderr
    page = (toy_data / "runs" / "toy" / "report.html").read_text()
    findings = [line.removeprefix("look at: ") for line in result.stderr.splitlines() if line.startswith("look at: ")]
    assert findings, "ten steps leave something to be desired"
    assert all(html.escape(finding, quote=False) in page for finding in findings)
    # a report that fails does not make the run fail
    broken = "import manyheads.reports.pages.run as r\nr.run_report = lambda folder: 1 / 0\n"
    result = manyheads("train", recipe_file(report=True), "--overwrite", before=broken)
    assert result.returncode == 0, result.stderr
    assert "no report was written: ZeroDivisionError" in result.stderr
    assert json.loads((toy_data / "runs" / "toy" / "metrics.json").read_text())["steps"] == 10
