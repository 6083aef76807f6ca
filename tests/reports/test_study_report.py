"""The report of a study: what it says follows from its table, finished or not."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from command import check_refused, manyheads
from manyheads.reports.findings import Finding
from manyheads.reports.pages.study import study_findings, study_report
from manyheads.reports.write import write_study_report
from manyheads.studies import tables as render
from manyheads.studies.runner import train_in_process
from manyheads.studies.smoke import open_smoke
from manyheads.studies.study import OpenStudy


@pytest.mark.slow
def test_a_study_page_has_its_table_and_figures(finished_study: OpenStudy, tmp_path: Path) -> None:
    file = write_study_report(finished_study, figures=tmp_path / "figures", form="png")
    assert file == finished_study.folder.path / "b2-transfer-smoke.html"
    text = file.read_text(encoding="utf-8")
    assert finished_study.study.question in text
    table, (matrix,) = finished_study.tables()
    for row in table.rows:
        assert row.name in text
        for cell in row.cells.values():
            assert cell.spread is not None
            low, high = (render.number(cell.mean + sign * cell.spread.half_width) for sign in (-1, 1))
            assert f"{render.number(cell.mean)} ({low} to {high})" in text
            assert cell.published is None or f"paper {render.number(cell.published)}<" in text
    for line in render.transfers(matrix):
        assert all(cell in text for cell in line.values())
    assert "Misprint in the paper's T2" in unescape(text)
    names = {file.stem for file in (tmp_path / "figures").iterdir()}
    tasks = ("sst", "qqp", "sts")
    expected = {"cost-plot", "transfer-examples", "task-bars", "curves-overall"}
    expected |= {f"{kind}-{task}" for kind in ("means", "differences", "bars", "curves", "losses") for task in tasks}
    for number in range(1, len(table.rows) + 1):
        expected |= {f"progress-{number}", f"roc-{number}-qqp", f"confusion-{number}-sst", f"confusion-{number}-qqp"}
        expected |= {
            f"scatter-{number}-sts",
            f"distributions-{number}-sts",
            *(f"pca-{number}-{task}" for task in tasks),
        }
    assert names == expected


@pytest.mark.slow
def test_the_mean_of_a_row_has_an_interval(finished_study: OpenStudy) -> None:
    """As a difference from nothing: the mean is the mean, and one seed's spread counts examples alone."""
    table, _ = finished_study.tables()
    for row in table.rows:
        for cell in row.cells.values():
            assert cell.spread is not None
            assert cell.spread.mean == pytest.approx(cell.mean)
            assert cell.spread.seeds == 2
            assert cell.spread.half_width > 0


@pytest.mark.slow
def test_what_is_said_is_what_the_table_marks(finished_study: OpenStudy) -> None:
    table, (matrix,) = finished_study.tables()
    cells = [cell for row in table.rows for cell in row.cells.values() if cell.difference is not None]
    for cell in cells:
        cell.verdict = "not distinguishable"
    undecided = Finding(f"Not distinguishable: {len(cells)} of {len(cells)} differences.", "results")
    assert study_findings(table, []) == [undecided]
    cells[0].verdict = "worse"
    worse, undecided = study_findings(table, [])
    assert re.match(r"Best individual is worse than Best multitask on sst accuracy: [+−]\S+ ± \S+\.", worse.text)
    assert undecided.text == f"Not distinguishable: {len(cells) - 1} of {len(cells)} differences."
    matrix.cells["sst"]["qqp"].verdict = "better"
    texts = [finding.text for finding in study_findings(table, [matrix])]
    assert any(text.startswith("sst gains from joint training with qqp at equal examples: ") for text in texts)


@pytest.mark.slow
def test_a_study_that_is_not_finished(tmp_path: Path) -> None:
    opened = open_smoke("papers/e1-encodings", tmp_path)
    words = ["report", "papers/e1-encodings", "--scale", "smoke", "--studies", tmp_path]
    check_refused(manyheads(*words), "no run is finished yet")
    train_in_process(opened.folder, *opened.runs[0])
    result = manyheads(*words, "--output", tmp_path / "part.html")
    assert result.returncode == 0, result.stderr
    assert "Not finished" in (tmp_path / "part.html").read_text(encoding="utf-8")
    figures = study_report(opened).figures
    assert "means-qqp" in figures
    assert "differences-qqp" not in figures, "there is nothing to compare with yet"


@pytest.mark.slow
def test_a_study_of_confusion_matrices(tmp_path: Path) -> None:
    opened = open_smoke("papers/d7-confusion", tmp_path)
    for identity, planned in opened.runs:
        train_in_process(opened.folder, identity, planned)
    assert 'id="confusion-1"' in study_report(opened).html
