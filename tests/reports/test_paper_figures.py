"""What studies claim to show of the papers is on their pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from constructed_study import construct_results
from manyheads.reports.pages.page import figures_of
from manyheads.reports.pages.study import StudyContent, study_content
from manyheads.reports.paper_figures import PAPER_FIGURES, coverage
from manyheads.studies.load import load_study, shipped_studies
from manyheads.studies.smoke import open_smoke

STUDIES = {name: load_study(name) for name in shipped_studies()}


def claimed_figures(name: str) -> list[str]:
    return [item for item in STUDIES[name].covers if item.startswith("F") and item[1:].isdigit()]


WITH_FIGURES = [name for name in STUDIES if claimed_figures(name)]


def figure_keys(content: StudyContent) -> set[str]:
    keys: set[str] = set()
    for section in content.sections:
        keys |= set(figures_of(section.blocks))
    return keys


def rows_to_draw(name: str, all_rows: list[str]) -> set[str]:
    """The rows that the paper's figures are about, and the first two: more only take longer."""
    rows = set(all_rows[:2])
    for item in claimed_figures(name):
        rows |= {element.row for element in PAPER_FIGURES[STUDIES[name].paper][item].elements if element.row}
    return rows


def test_no_study_claims_a_figure_that_no_page_draws() -> None:
    for name in WITH_FIGURES:
        unknown = set(claimed_figures(name)) - set(PAPER_FIGURES[STUDIES[name].paper])
        assert not unknown, f"{name} claims {unknown}"


def test_every_figure_that_a_page_can_draw_is_claimed_once() -> None:
    claims = [(STUDIES[name].paper, item) for name in WITH_FIGURES for item in claimed_figures(name)]
    drawn = [(paper, item) for paper, figures in PAPER_FIGURES.items() for item in figures]
    assert sorted(claims) == sorted(drawn)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_FIGURES)
def test_a_page_has_every_figure_that_its_study_claims(name: str, tmp_path: Path) -> None:
    opened = open_smoke(name, tmp_path)
    construct_results(opened, tmp_path, rows_to_draw(name, opened.row_names))
    content = study_content(opened)
    keys = figure_keys(content)
    assert [item.name for item in content.lead["covers"]] == STUDIES[name].covers
    for item in content.lead["covers"]:
        assert not item.missing, f"{name} claims {item.name}, but its page lacks a part of it"
        assert item.links
        for link in item.links:
            assert link.key in keys or link.key == "results"


def test_a_figure_that_is_not_there_is_said_to_be_missing() -> None:
    """Without its row, without its figure; a table is always there."""
    table, figure = coverage("E", ["T3", "F3"], {}, {"confusion-1-sst"})
    assert not table.missing
    assert [link.key for link in table.links] == ["results"]
    assert figure.missing
    assert not figure.links
    rows = {"SFT + SMART + Dual": 5}
    assert coverage("E", ["F3"], rows, {"confusion-1-sst"})[0].missing
    found = coverage("E", ["F3"], rows, {"confusion-5-sst"})[0]
    assert not found.missing
    assert [link.key for link in found.links] == ["confusion-5-sst"]


def test_a_study_of_ones_own_may_cover_what_it_likes() -> None:
    covered = coverage("", ["F1", "our table"], {}, set())
    assert [(item.name, item.missing, item.links[0].key) for item in covered] == [
        ("F1", "", "results"),
        ("our table", "", "results"),
    ]
