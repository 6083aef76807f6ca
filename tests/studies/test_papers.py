"""The papers' studies: none is missing, every published figure has its place, and each still runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from manyheads.console import Reporter
from manyheads.studies.columns import OVERALL
from manyheads.studies.config import SCALES
from manyheads.studies.folder import StudyFolder
from manyheads.studies.load import load_study, shipped_studies
from manyheads.studies.smoke import try_studies
from manyheads.studies.study import OpenStudy
from manyheads.studies.variants import make_rows

pytestmark = pytest.mark.slow

# every table and ablation that the catalogue of the papers lists
CATALOGUE = {
    "A": [
        *(
            "T1",
            "T2",
            "T3",
            "T4",
            "T5",
            "T6",
            "T7a",
            "T7b",
            "T8",
            "T9",
            "T10",
            "T11",
            "T12",
            "T13",
            "T14",
            "T15",
            "T16",
        ),
        *("F1", "F2", "F3", "F4"),
    ],
    "B": [
        *("F3", "F4", "F5", "F6", "F7"),
        *("T1", "T1 last rows", "T2", "reversed order", "QQP + STS only", "output functions", "pooling", "dropout"),
        *("task-specific against combined loss", "six SST seeds"),
    ],
    "C": [
        "T2",
        "F3",
        "F5",
        "F6",
        "F7",
        "T2 E1–E3",
        "T3",
        "cosine + MSE against cosine embedding",
        "SMART on all tasks, §6.4",
    ],
    "D": [
        *("T2", "T4", "T5", "F5", "F6", "cosine embedding against similarity layer, §4.2", "cap factor"),
        *("accumulation on and off", "[CLS] against mean"),
    ],
    "E": ["T1", "T2", "T3", "T4", "T5", "T6", "F2", "F3", "F4"],
}
STUDIES = {name: load_study(name) for name in shipped_studies()}


def test_none_is_missing() -> None:
    found = {
        paper: sorted(one for study in STUDIES.values() if study.paper == paper for one in study.covers)
        for paper in CATALOGUE
    }
    assert found == {paper: sorted(wanted) for paper, wanted in CATALOGUE.items()}
    assert all(study.question for study in STUDIES.values())


@pytest.mark.parametrize("name", STUDIES)
def test_every_published_figure_has_a_row_and_a_column(name: str) -> None:
    """At the scale of the paper; where rows are one per layer, of an encoder as deep as the paper's."""
    study, smoke = STUDIES[name], STUDIES[name].at("smoke")
    opened = OpenStudy(smoke, StudyFolder(Path("unused")), {})
    rows = {row.name for row in make_rows(study, opened.base)}  # of all scales together
    if any("layer" in variant.each for variant in study.variants.values()):
        rows = {f"Layer {layer}" for layer in range(1, 13)}
    assert set(study.published) <= rows
    columns = set(study.metrics or [*opened.base.tasks, OVERALL])
    for printed in study.published.values():
        if isinstance(printed, dict):
            assert set(printed) <= columns
            assert all(-1 <= figure <= 1 for figure in printed.values())
    assert set(SCALES) >= set(study.scales)


def test_each_still_runs(tmp_path: Path) -> None:
    """The first and last row of every study, in this process."""
    console = Console(file=(tmp_path / "told.txt").open("w"), width=200)
    reporter = Reporter(quiet=True)
    reporter.console = console
    failed = try_studies(list(STUDIES), tmp_path / "studies", ends=True, reporter=reporter)
    told = (tmp_path / "told.txt").read_text()
    assert not failed, told
    assert "papers/e1-encodings: 2 runs" in told, "one seed of two rows"
