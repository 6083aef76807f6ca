"""`not_worse` of a study whose results are constructed: rows that are as good, worse, or not shown to be either."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from constructed_study import construct_results
from manyheads.cli import study as command
from manyheads.errors import UserError
from manyheads.reports.pages.page import render_report
from manyheads.reports.pages.study import _calibration_section, _lead, _margin_section, study_findings
from manyheads.studies.comparison import StudyTable
from manyheads.studies.footer import footer
from manyheads.studies.margin_tables import margins
from manyheads.studies.margins import MEAN
from manyheads.studies.store import ResultStore
from manyheads.studies.study import OpenStudy, open_study
from manyheads.studies.tables import calibration_details
from manyheads.studies.variants import PlannedRun
from manyheads.tasks.task import Task

EXAMPLES = 200
RIGHT = {"alone": 180, "as good": 180, "open": 171, "worse": 120}  # of 200 examples of 'coarse' and 'fine'
MARGIN = 0.04
STUDY: dict[str, Any] = {
    "base": "base.yaml",
    "variants": {
        "as good": {},
        "open": {"training.learning_rate": 2e-3},
        "worse": {"training.learning_rate": 3e-3},
        "alone": {"each": "task", "tasks": ["{task}"]},
    },
    "seeds": 3,
    "metrics": ["coarse"],
    "not_worse": {"than": "alone", "margin": MARGIN, "tasks": {"coarse": 0.06, "fine": 0.03}},
}


def write(folder: Path, **changes: Any) -> str:
    """A file of which two tasks read one label each, and one reads numbers; the study beside it."""
    rows = ["sentence,coarse,fine,number"]
    rows += [f"text number {i},{i % 2},{i % 4},{i % 7 * 0.8:.1f}" for i in range(EXAMPLES)]
    for split in ("train", "dev"):
        (folder / f"{split}.csv").write_text("\n".join(rows))
    files = {"train": "train.csv", "dev": "dev.csv", "text": "sentence"}
    tasks = {
        "coarse": {**files, "label": "coarse"},
        "near": {**files, "label": "number", "range": [0, 5], "max_dev": 100},
        "fine": {**files, "label": "fine"},
    }
    (folder / "base.yaml").write_text(yaml.safe_dump({"encoder": "toy", "tasks": tasks}))
    content = {key: value for key, value in {**STUDY, **changes}.items() if value is not None}
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return str(file)


def predict(planned: PlannedRun, task: Task, labels: np.ndarray) -> np.ndarray:
    """Classes are right as often as the row's, on other examples for every seed; numbers are all rows' alike."""
    if not task.kind.has_classes:
        return labels + np.random.default_rng(planned.seed).normal(size=len(labels))
    classes = len(task.labels.names)
    order = np.random.default_rng([planned.seed, len(planned.row)]).permutation(len(labels))
    chosen = np.where(order < RIGHT[planned.row], labels, (labels + 1) % classes)
    return np.eye(classes)[chosen]


def opened(folder: Path, **changes: Any) -> OpenStudy:
    return open_study(write(folder, **changes), None, folder / "studies", {})


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> OpenStudy:
    folder = tmp_path_factory.mktemp("margins")
    study = opened(folder)
    construct_results(study, folder, predict=predict)
    return study


@pytest.fixture(scope="module")
def table(judged: OpenStudy) -> StudyTable:
    return judged.tables()[0]


def test_rows_that_are_as_good_and_rows_that_are_not(table: StudyTable) -> None:
    verdicts = table.margins
    assert verdicts is not None
    assert list(verdicts.rows) == ["as good", "open", "worse"]
    on_mean = {row: cells[MEAN].judged.verdict for row, cells in verdicts.rows.items() if cells[MEAN].judged}
    assert on_mean == {"as good": "not worse", "open": "not shown", "worse": "worse"}
    for row, cells in verdicts.rows.items():
        gap = (RIGHT[row] - RIGHT["alone"]) / EXAMPLES
        assert cells["coarse"].difference.mean == pytest.approx(gap)
        assert cells["near"].difference.mean == 0.0
        assert cells[MEAN].difference.mean == pytest.approx(2 * gap / 3), "the plain mean of three tasks"
        assert cells["coarse"].judged is not None
        assert cells["near"].judged is None, "it has no margin"
        assert cells[MEAN].examples == 500
    assert verdicts.looks(MEAN) == 3
    assert (verdicts.stated, verdicts.runs) == (0, 18), (
        "constructed results do not say under which margins they were trained"
    )


def test_tasks_of_the_same_dev_rows_are_drawn_together(table: StudyTable) -> None:
    """Right on the same examples, 'coarse' and 'fine' move the mean by 2/3: the variance is 4/9 of one's, not 2/9."""
    assert table.margins is not None
    assert table.margins.drawn_together == [["coarse", "fine"]]
    for cells in table.margins.rows.values():
        alone = cells["coarse"].difference.example_variance
        assert cells[MEAN].difference.example_variance == pytest.approx(4 / 9 * alone, rel=1e-6)


@pytest.mark.slow
def test_what_is_printed(judged: OpenStudy, capsys: pytest.CaptureFixture[str]) -> None:
    command._print_tables(judged, "markdown")
    text = capsys.readouterr().out
    assert "Not worse than 'alone'?" in text
    assert "| variant | on | difference | lower end | smallest margin | verdict |" in text
    lines = [line for line in text.splitlines() if line.startswith("| as good | mean of 3 metrics |")]
    assert lines[0].endswith("| not worse (margin .04) |")
    assert "| worse (margin .06) |" in text
    assert "both hold for 3 rows together (Holm)" in text
    assert "Tasks of the same dev rows are drawn together: coarse with fine." in text
    assert "'open' on mean of 3 metrics: a margin of .04 would be shown four times of five by these 3 seeds" in text
    [needed] = [line for line in text.splitlines() if "'as good' on fine accuracy: a margin of .03" in line]
    assert re.search(
        r"needs about \d+ seeds with these dev examples, or [\d.]+ times the dev examples \(\d+ for 200\)", needed
    )
    assert "None of the 18 runs was trained while these margins stood in its study's file." in text
    assert "On dev before and after calibration" in text
    command._print_tables(judged, "json")
    content = json.loads(capsys.readouterr().out)
    [mean] = [
        line for line in content["figures"] if (line["variant"], line["column"]) == ("as good", "mean of metrics")
    ]
    assert (mean["verdict"], mean["margin"], mean["compared_with"]) == ("not worse", MARGIN, "alone")
    assert -MARGIN < mean["lower_end"] < mean["difference"]
    assert mean["p"] < mean["p_corrected"] < 0.05
    assert any("four times of five if rows were equal" in note for note in content["notes"])
    command._print_tables(judged, "csv")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["verdict"] for row in rows if row["column"] == "mean of metrics"] == ["not worse", "not shown", "worse"]
    assert {row["margin"] for row in rows if row["column"] == "coarse"} == {"", "0.06"}


def test_the_smallest_margin_is_rounded_up(table: StudyTable) -> None:
    assert table.margins is not None
    for line in margins(table):
        measure = {title: name for name, title in table.margins.measures.items()}[line["on"]]
        lower = table.margins.rows[line["variant"]][measure].difference.lower_end()
        assert float(line["smallest margin"]) >= max(0.0, -lower)
        assert float(line["smallest margin"]) - max(0.0, -lower) < 1.01e-4


def test_the_page_says_it_too(judged: OpenStudy, table: StudyTable) -> None:
    """Its two sections and what it starts with; figures take long, and other tests draw them."""
    texts = [finding.text for finding in study_findings(table, [])]
    assert texts[0].startswith(
        "as good is not worse than alone on mean of 3 metrics (margin .04): +.0000, lower end −.0"
    )
    assert any(text.startswith("open is not shown to be as good as alone on mean of 3 metrics") for text in texts)
    lead = {**_lead(judged, table, []), "covers": []}
    sections = [_margin_section(table), _calibration_section(table)]
    html = render_report("study.html.jinja", "page", sections, footer(table), lead).html
    assert 'href="#margins"' in html
    assert html.count('id="margins"') == 1
    for line in [*margins(table), *calibration_details(table)]:
        for text in line.values():
            assert text in unescape(html)


def test_calibration_is_shown_before_and_after(table: StudyTable) -> None:
    """As construct_results has it: errors of .2 before and .1 after, by seed 0, .01 and .02 more."""
    assert set(table.calibration) == {"as good", "open", "worse", "alone"}
    change = table.calibration["alone"]["coarse"]
    assert change.before["calibration-error"] == pytest.approx(0.21)
    assert change.after["calibration-error"] == pytest.approx(0.11)
    assert change.temperature == pytest.approx(1.5)
    assert "near" not in table.calibration["as good"]
    assert calibration_details(table)[0] == {
        "variant": "as good",
        "task": "coarse",
        "fitted": "temperature 1.5",
        "loss": ".600 → .500",
        "calibration-error": ".210 → .110",
    }


def test_an_export_whose_calibration_has_no_after_is_refused(judged: OpenStudy, tmp_path: Path) -> None:
    written = judged.folder.path.parent / "constructed.jsonl.gz"
    spoiled = tmp_path / "spoiled.jsonl.gz"
    spoiled.write_bytes(gzip.compress(gzip.decompress(written.read_bytes()).replace(b'"after"', b'"later"')))
    with pytest.raises(UserError) as refused:
        ResultStore(tmp_path / "results").import_file(spoiled)
    assert refused.value.code == "not-an-export"


def test_verdicts_before_the_last_seed_are_provisional(table: StudyTable, tmp_path: Path) -> None:
    study = opened(tmp_path)
    construct_results(study, tmp_path, rows=["alone", "as good"], predict=predict)
    unfinished, _ = study.tables()
    assert unfinished.missing == {"open": 3, "worse": 3}
    assert [any("provisional" in line for line in footer(given)) for given in (unfinished, table)] == [True, False]


def test_one_seed_gives_no_verdict(tmp_path: Path) -> None:
    study = opened(tmp_path, seeds=1)
    construct_results(study, tmp_path, predict=predict)
    table, _ = study.tables()
    assert table.margins is not None
    cell = table.margins.rows["worse"][MEAN]
    assert cell.judged is None
    assert cell.difference.lower_end() < cell.difference.mean, "over dev examples alone"
    assert {line["verdict"] for line in margins(table) if line["on"] == "mean of 3 metrics"} == {
        "no verdict from one seed"
    }
    lines = footer(table)
    assert "intervals cover the dev examples alone" in lines[0]
    start = "'worse' on mean of 3 metrics: a margin of .04 needs at least two seeds"
    assert any(line.startswith(start) for line in lines)


def test_a_row_may_have_fewer_seeds_and_a_value_for_each_task(tmp_path: Path) -> None:
    budgets = {"by_task": {"coarse": {"examples": 10}, "near": {"examples": 20}, "fine": {"examples": 30}}}
    variants = {
        "as good": {},
        "alone": {"each": "task", "tasks": ["{task}"], "training.budget": budgets},
        "open": {"training.learning_rate": 2e-3, "seeds": 1},
    }
    study = opened(tmp_path, variants=variants)
    planned = [(run.row, run.seed, run.member) for _, run in study.runs if run.row != "alone"]
    assert planned == [("as good", 0, ""), ("as good", 1, ""), ("as good", 2, ""), ("open", 0, "")]
    examples = {run.member: run.recipe.training.budget for _, run in study.runs if run.row == "alone"}
    assert {member: budget.examples for member, budget in examples.items() if budget} == {
        "coarse": 10,
        "near": 20,
        "fine": 30,
    }
    construct_results(study, tmp_path, predict=predict)
    table, _ = study.tables()
    assert table.missing == {}
    assert table.margins is not None
    assert list(table.margins.rows) == ["as good"]
    assert "'open' has one seed of the study's 3: it is shown, and not compared." in footer(table)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"not_worse": {"than": "alone", "margin": 0.0}}, "bad-recipe"),
        ({"not_worse": {"than": "alone"}}, "bad-recipe"),
        ({"not_worse": {"than": "Alone", "margin": 0.01}}, "unknown-row"),
        ({"not_worse": {"than": "alone", "margin": 0.01, "tasks": {"rough": 0.01}}}, "unknown-task"),
        ({"layout": "confusion"}, "no-verdicts"),
        ({"variants": {"alone": {}}}, "nothing-to-compare"),
        ({"variants": {"part": {}, "alone": {"tasks": ["coarse"]}}}, "tasks-missing"),
        ({"variants": {"alone": {}, "x": {"training.epochs": {"by_task": {"coarse": 1}}}}}, "no-run-per-task"),
        ({"set": {"training.epochs": {"by_task": {"coarse": 1}}}}, "no-run-per-task"),
        (
            {"variants": {"a": {}, "alone": {"each": "task", "training.epochs": {"by_task": {"coarse": 1}}}}},
            "task-without-value",
        ),
        ({"variants": {"a": {"seeds": 0}, "alone": {}}}, "bad-recipe"),
    ],
)
def test_a_study_that_cannot_be_judged_is_refused_before_training(
    tmp_path: Path, changes: dict[str, Any], code: str
) -> None:
    with pytest.raises(UserError) as refused:
        opened(tmp_path, **changes)
    assert refused.value.code == code
    assert "mine.yaml" in str(refused.value)


def test_a_metric_without_a_largest_value_has_no_place_in_a_mean(tmp_path: Path) -> None:
    study = opened(tmp_path, set={"tasks.near.metrics": ["mse"]})
    with pytest.raises(UserError) as refused:
        study.check_metrics()
    assert refused.value.code == "no-common-scale"
    weightless = {"tasks.near.metrics": ["mse"], "evaluate.weights": {"near": 0}}
    opened(tmp_path, set=weightless, variants={"one": {}, "alone": {"training.learning_rate": 1e-3}}).check_metrics()


def test_a_scale_that_leaves_the_reference_out_has_no_verdicts(tmp_path: Path) -> None:
    study = opened(tmp_path, seeds=1, scales={"tiny": {"leave_out": ["alone", "open"]}})
    construct_results(study, tmp_path, predict=predict)
    assert study.tables()[0].margins is None
