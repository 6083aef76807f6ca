"""What a table says it could have seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from manyheads.studies.comparison import Cell, StudyTable, TableRow
from manyheads.studies.config import Study
from manyheads.studies.footer import TASK_CHECKPOINTS, detectable, footer
from manyheads.studies.statistics import Difference
from manyheads.studies.study import open_study
from manyheads.studies.tables import number, trivial
from manyheads.training.loop import train


def cell(seed_variance: float, example_variance: float) -> Cell:
    found = Cell({0: 0.5, 1: 0.5, 2: 0.5})
    found.difference = Difference(0.02, 3, seed_variance, example_variance)
    return found


def test_what_would_be_found_and_how_many_seeds_it_takes() -> None:
    calm, wild = cell(1e-6, 1e-8), cell(3e-6, 1e-8)  # their middle: 2e-6
    hopeless = cell(1e-6, 1e-2)  # the dev set is too small for .01
    size, seeds = detectable({"sst": [calm, wild], "sts": [hopeless]}, {"sst": 1.0, "sts": 2.0}, looks=3)
    middle, small = Difference(0.0, 3, 2e-6, 1e-8), Difference(0.0, 3, 1e-6, 1e-2)
    assert size.endswith(f": sst {number(middle.detectable(3))}, sts {number(small.detectable(3))}.")
    assert seeds.endswith(f": sst {middle.seeds_for(0.01, 3, 100)}; more than 100 for sts.")
    assert detectable({"sts": [hopeless]}, {"sts": 0.2}, looks=3)[0].endswith(": sts none that there can be.")
    assert detectable({"sst": [Cell({0: 0.5})]}, {"sst": 1.0}, looks=1) == []


@pytest.mark.parametrize(("kinds", "said"), [(["task", ""], True), (["task", "task"], False), (["", ""], False)])
def test_a_table_says_where_rows_choose_their_checkpoints_differently(kinds: list[str], said: bool) -> None:
    variants = {f"row {at}": {"each": kind} if kind else {} for at, kind in enumerate(kinds)}
    study = Study.model_validate({"base": "recipe.yaml", "variants": variants})
    rows = [TableRow(name, {"sst": cell(1e-6, 1e-8)}, 1, 1, 1, 1) for name in variants]
    table = StudyTable(study, {"sst": "sst"}, {"sst": 1.0}, "row 0", rows, {}, looks=1)
    assert (TASK_CHECKPOINTS in footer(table)) == said


@pytest.mark.slow
def test_rows_are_held_against_majority_and_probe(tmp_path: Path) -> None:
    opened = open_study("own/board", "smoke", tmp_path, {}, seeds=[0])
    [(identity, planned)] = opened.runs_of(["one model"])
    run = train(planned.recipe.model_copy(update={"output": str(tmp_path / "runs")}), quiet=True)
    opened.folder.results.collect(run, identity, margins=planned.margins)
    table, _ = opened.tables()
    metrics = run.metrics
    result = opened.folder.results.read(identity)
    assert result.margins == {"than": "each alone", "margin": 0.01, "tasks": {}}, "as the study said while it trained"
    assert result.calibration == metrics["calibration"]
    for task, changes in metrics["calibration"].items():
        shown = table.calibration["one model"][task]
        assert (shown.before, shown.after) == (changes["before"], changes["after"])
        assert shown.temperature == changes["temperature"]
    for key, title in {"majority": "majority", "frozen": "frozen probe"}.items():
        baseline = metrics[key]["metrics"]
        [line] = [line for line in trivial(table) if line["baseline"] == title]
        assert line["clinc accuracy"] == number(baseline["clinc"]["accuracy"])
        assert line["qqp accuracy"] == number(baseline["qqp"]["accuracy"])
        assert line["overall"] == number(metrics[key]["overall"])
    exported = tmp_path / "results.jsonl.gz"
    opened.folder.results.export([identity], exported)
    elsewhere = open_study("own/board", "smoke", tmp_path / "elsewhere", {}, seeds=[0])
    elsewhere.folder.results.import_file(exported)
    assert trivial(elsewhere.tables()[0]) == trivial(table)
    assert elsewhere.tables()[0].calibration == table.calibration
