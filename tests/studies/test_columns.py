"""Columns that read a run's history, its test metrics, or its predictions by another metric: by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from building import NUMBERS, a_task
from manyheads.config.part import PartConfig
from manyheads.data.labels import LabelReader
from manyheads.errors import UserError
from manyheads.studies.comparison import FinishedResults, StudyTable, make_table
from manyheads.studies.config import Study
from manyheads.studies.folder import StudyFolder
from manyheads.studies.footer import footer
from manyheads.studies.load import load_study
from manyheads.studies.store import Result
from manyheads.studies.study import OpenStudy
from manyheads.studies.tables import as_csv, differences, values
from manyheads.studies.variants import Row
from manyheads.tasks.resolve import load_recipe

GRADES = LabelReader("ordinal", tuple("01234"), {name: number for number, name in enumerate("01234")})
TASKS = {
    "sst": a_task(name="sst", labels=GRADES, metrics=(PartConfig(name="accuracy"),)),
    "sts": a_task(name="sts", labels=NUMBERS, metrics=(PartConfig(name="pearson"),)),
}
LABELS = {"sst": np.array([0, 1, 2, 4]), "sts": np.array([0.0, 1.0, 2.0, 5.0])}
PREDICTED = {"sst": np.eye(5)[[0, 1, 3, 1]], "sts": np.array([0.0, 2.0, 4.0, 5.0])}
METRICS: dict[str, dict[str, float | None]] = {"sst": {"accuracy": 0.5}, "sts": {"pearson": 0.9}}


def entry(epoch: int, sst: float | None, sts: float, overall: float, train: float | None = None) -> dict[str, Any]:
    content: dict[str, Any] = {
        "step": 10 * epoch,
        "epoch": epoch,
        "metrics": {"sst": {"accuracy": sst}, "sts": {"pearson": sts}},
        "overall": overall,
        "losses": {"sst": 1.0, "sts": 1.0},
        "examples": {"sst": 3, "sts": 4},
    }
    if train is not None:
        content["train"] = {"sst": {"accuracy": train}, "sts": {"pearson": 0.99}}
    return content


def result(identity: str, seed: int, **more: Any) -> Result:
    return Result(
        identity=identity, seed=seed, tasks=TASKS, dev={"sst": "a", "sts": "b"}, metrics=METRICS, overall=0.7,
        seconds=1.0, gigabytes=1.0, steps=30, examples_seen={"sst": 30}, predictions=PREDICTED, labels=LABELS,
        ids={"sst": list("abcd"), "sts": list("abcd")}, **more,
    )  # fmt: skip


# best of SST at epoch 2 (3 has the same), of STS at 1, over all at 3; then SST at 1, over all at 2 (3 has the same)
FIRST = [entry(1, 0.3, 0.8, 0.60, 0.4), entry(2, 0.5, 0.7, 0.65, 0.6), entry(3, 0.5, 0.7, 0.66, 0.9)]
SECOND = [entry(1, 0.6, 0.5, 0.50, 0.5), entry(2, None, 0.6, 0.70, 0.8), entry(3, 0.4, 0.6, 0.70, 0.9)]
TEST = {"metrics": {"sst": {"accuracy": 0.4}, "sts": {"pearson": 0.6}}, "examples": {"sst": 9, "sts": 9}}


def table(columns: list[str], finished: FinishedResults, **more: Any) -> StudyTable:
    content = {
        "base": "scales/smoke",
        "variants": {name: {} for name in finished},
        "seeds": 2,
        "metrics": columns,
        **more,
    }
    base = load_recipe("scales/smoke", {"tasks": ["sst", "sts"]})
    rows = [Row(name, name, {"": {}}) for name in finished]
    return make_table(Study.model_validate(content), base, rows, finished)


def two_seeds(**more: Any) -> dict[int, dict[str, Result]]:
    return {
        0: {"": result("one", 0, history=FIRST, test=TEST, **more)},
        1: {"": result("two", 1, history=SECOND, test=TEST, **more)},
    }


def test_what_a_history_gives() -> None:
    """Mean and deviation over seeds: 2 and 1 → 1.5 ± √.5; .5 and .6; train where best/ was chosen, at 3 and 2."""
    columns = ["sst", "sst.best", "sst.best_epoch", "sst.train", "sts.best", "sts.best_epoch", "overall.best_epoch"]
    found = table(columns, {"a": two_seeds()}, published={"a": {"sst.best_epoch": 5, "sst.train": 0.874}})
    cells = found.rows[0].cells
    by_seed = {column: list(cell.values.values()) for column, cell in cells.items()}
    assert by_seed == {
        "sst": [0.5, 0.5],
        "sst.best": [0.5, 0.6],
        "sst.best_epoch": [2.0, 1.0],
        "sst.train": [0.9, 0.8],
        "sts.best": [0.8, 0.6],
        "sts.best_epoch": [1.0, 2.0],
        "overall.best_epoch": [3.0, 2.0],
    }
    assert cells["sst.best_epoch"].mean == 1.5
    assert cells["sst.best_epoch"].deviation == pytest.approx(0.5**0.5)
    (line,) = values(found)
    assert line["sst best epoch"] == "1.5 ± .7"
    assert line["paper's sst.best_epoch"] == "5.0"
    assert line["sst accuracy on train"] == ".850 ± .071"
    assert line["paper's sst.train"] == ".874"
    assert line["sst accuracy (own best)"] == ".550 ± .071"
    lines = footer(found)
    assert any("sst 3 of 4" in text for text in lines), "one of SST's four dev examples is left out while training"
    assert not any("sts 4 of 4" in text for text in lines)
    assert not any("Not known" in text for text in lines)


def test_test_metrics_and_their_overall_score() -> None:
    found = table(["sst.test", "sts.test", "overall.test"], {"a": two_seeds()})
    cells = found.rows[0].cells
    assert cells["sst.test"].mean == pytest.approx(0.4)
    assert cells["overall.test"].mean == pytest.approx((0.4 + (1 + 0.6) / 2) / 2)
    assert found.columns == {
        "sst.test": "sst accuracy on test", "sts.test": "sts pearson on test", "overall.test": "overall on test",
    }  # fmt: skip
    part = {"metrics": {"sst": {"accuracy": 0.4}}, "examples": {"sst": 9}}
    incomplete = table(["sst.test", "overall.test"], {"a": {0: {"": result("one", 0, test=part)}}})
    assert incomplete.rows[0].cells["overall.test"].values == {}, "of all tasks or not at all"


def test_such_columns_are_not_compared_and_the_footer_says_so() -> None:
    other = {seed: {"": result(f"other {seed}", seed, history=FIRST)} for seed in (0, 1)}
    found = table(["sst", "sst.best"], {"a": two_seeds(), "b": other})
    assert found.looks == 1
    assert found.rows[1].cells["sst.best"].difference is None
    assert list(differences(found)[0]) == ["variant", "sst accuracy"]
    assert any(text.startswith("No differences are given for sst accuracy (own best)") for text in footer(found))
    assert "b,sst.best,2,0.5,0.0,,,,,,,," in as_csv(found)


def test_results_without_a_history_leave_cells_empty() -> None:
    old = {0: {"": result("old", 0)}, 1: {"": result("older", 1)}}
    found = table(["sst", "sst.best", "sst.best_epoch", "sst.train", "sst.test"], {"new": two_seeds(), "old": old})
    line = values(found)[1]
    assert line["sst accuracy"].startswith(".500")
    empty = ("sst accuracy (own best)", "sst best epoch", "sst accuracy on train", "sst accuracy on test")
    assert [line[title] for title in empty] == ["–"] * 4
    unknown = [text for text in footer(found) if text.startswith("Not known for 2 of 4 runs: ")]
    assert len(unknown) == 4


@pytest.mark.slow
def test_a_metric_that_runs_do_not_measure_is_taken_from_their_predictions() -> None:
    """Paper D's § 5.1. SST: 0, 0, 1 and 3 classes off; STS: 0, 1, 2 and 0 off, of a range of 5."""
    columns = ["sst", "sst.class-mse", "sst.off-by-two", "sst.class-pearson", "sts.mse", "sts.unit-mse", "sts.within"]
    other = {seed: {"": result(f"other {seed}", seed)} for seed in (0, 1)}
    found = table(columns, {"a": two_seeds(), "b": other})
    means = {column: cell.mean for column, cell in found.rows[0].cells.items()}
    # classes 0 1 3 1 and 0 1 2 4: deviations −1.25 −.25 1.75 −.25 and −1.75 −.75 .25 2.25; products sum to 2.25
    correlation = 2.25 / np.sqrt((1.5625 + 0.0625 + 3.0625 + 0.0625) * (3.0625 + 0.5625 + 0.0625 + 5.0625))
    assert means == {
        "sst": 0.5,
        "sst.class-mse": pytest.approx((0 + 0 + 1 + 9) / 4),
        "sst.off-by-two": pytest.approx(1 / 4),
        "sst.class-pearson": pytest.approx(correlation),
        "sts.mse": pytest.approx((1 + 4) / 4),
        "sts.unit-mse": pytest.approx((1 + 4) / 4 / 25),
        "sts.within": pytest.approx(3 / 4),
    }
    assert found.rows[1].cells["sts.unit-mse"].difference is not None, "predictions are kept, so it can be compared"


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("sts.accuracy", "task 'sts' is not measured by 'accuracy': 'accuracy' needs one class"),
        ("sts.within(tolerance=0.1)", "name it in tasks.sts.metrics"),
    ],
)
def test_a_metric_that_does_not_fit_is_refused(column: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        table([column], {"a": two_seeds()})
    assert refused.value.code == "unknown-metric"
    assert message in str(refused.value)


def opened(folder: Path, **content: Any) -> OpenStudy:
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump({"base": "scales/smoke", **content}, sort_keys=False))
    return OpenStudy(load_study(file).at(None), StudyFolder(folder / "studies"), {})


@pytest.mark.parametrize(
    ("content", "message", "code"),
    [
        ({"metrics": ["sst.bset"]}, "A column may also be sst.best, sst.best_epoch, sst.train, sst", "unknown-metric"),
        ({"metrics": ["overall.train"]}, "there are overall.best_epoch, overall.test", "unknown-metric"),
        ({"metrics": ["sst", "sst.train"]}, "'sst.train' needs metrics on train", "train-not-measured"),
        (
            {"metrics": ["sst.best"], "set": {"evaluate.select": 0.2}},
            "'sst.best' is read from evaluations while training",
            "dev-not-evaluated",
        ),
        ({"metrics": ["sst"], "published": {"a": {"sst.best": 0.5}}}, "no column 'sst.best'", "unknown-column"),
    ],
)
def test_columns_are_checked_before_anything_is_trained(
    tmp_path: Path, content: dict[str, Any], message: str, code: str
) -> None:
    study = opened(tmp_path, variants={"a": {}}, **content)
    with pytest.raises(UserError) as refused:
        study.check()
    assert refused.value.code == code
    assert message in str(refused.value)


def test_columns_that_can_be_made_pass(tmp_path: Path) -> None:
    columns = ["sst", "sst.best", "sst.best_epoch", "sst.train", "sst.test", "overall.best_epoch", "overall.test"]
    settings = {"evaluate.train_examples": 20}
    opened(tmp_path, variants={"a": {}}, metrics=columns, set=settings, published={"a": {"sst.train": 0.9}}).check()
    with pytest.raises(UserError, match=r"'sst\.train' needs metrics on train"):
        opened(tmp_path, variants={"a": settings, "b": {}}, metrics=columns).check()
