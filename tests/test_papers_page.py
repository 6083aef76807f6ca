"""docs/papers.md: every table, figure and ablation of the papers has a row, and what the row names is there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import SHARED_DATA
from manyheads.studies.load import load_study, shipped_studies

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "papers.md"
PAPERS = ("A", "B", "C", "D", "E")
PRINTED = {"A": (19, 5), "B": (2, 7), "C": (3, 8), "D": (5, 6), "E": (6, 4)}  # tables, figures
TEXTS = SHARED_DATA.parent / "papers"
STUDIES = {Path(name).name: load_study(name) for name in shipped_studies()}


@dataclass
class Item:
    """A row of the page."""

    paper: str
    name: str
    ours: str
    exact: str
    reading: str
    found: str

    @property
    def ids(self) -> list[str]:
        """'`T3` `T9` weights' → T3, T9: what a study's `covers` calls it; none for a claim, which names its section."""
        return re.findall(r"`([^`]+)`", self.name)

    @property
    def studies(self) -> list[str]:
        return re.findall(r"\]\(\.\./src/manyheads/recipes/\w+/([\w-]+)\.yaml\)", self.ours)


def read_items() -> list[Item]:
    items: list[Item] = []
    paper = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        heading = re.match(r"## (?:Paper ([A-E]))?", line)
        if heading:
            paper = heading[1] or ""
        if paper and line.startswith("| ") and not line.startswith("| paper's item"):
            items.append(Item(paper, *[cell.strip() for cell in line.strip("|").split(" | ")]))
    return items


ITEMS = read_items()
SHOWN = sorted({item.paper for item in ITEMS})


def ids_of(paper: str) -> list[str]:
    return [item_id for item in ITEMS if item.paper == paper for item_id in item.ids]


def test_all_papers_are_there() -> None:
    assert tuple(SHOWN) == PAPERS


@pytest.mark.parametrize("paper", SHOWN)
def test_every_table_and_figure_has_a_row(paper: str) -> None:
    tables, figures = PRINTED[paper]
    numbers = [f"T{number}" for number in range(1, tables + 1)] + [f"F{number}" for number in range(1, figures + 1)]
    listed = {re.sub(r"(?<=\d)[a-z]$", "", item_id) for item_id in ids_of(paper)}  # T7a and T7b are table 7
    assert [number for number in numbers if number not in listed] == []


@pytest.mark.skipif(not TEXTS.is_dir(), reason="the papers are not here")
@pytest.mark.parametrize("paper", PAPERS)
def test_the_papers_have_no_other_tables_and_figures(paper: str) -> None:
    """The numbers that the texts name are those that rows are asked for."""
    [file] = TEXTS.glob(f"00{PAPERS.index(paper)}_*.txt")
    text = file.read_text(encoding="utf-8")
    for word, count in zip(("table", "figure"), PRINTED[paper], strict=True):
        named = {int(number) for number in re.findall(rf"\b{word} ?(\d+)", text, flags=re.IGNORECASE)}
        assert named == set(range(1, count + 1))


@pytest.mark.parametrize("paper", SHOWN)
def test_what_studies_cover_is_on_the_page_and_the_other_way_round(paper: str) -> None:
    covered = {(item_id, name) for name, study in STUDIES.items() if study.paper == paper for item_id in study.covers}
    listed: list[tuple[str, str]] = []
    for item in ITEMS:
        if item.paper == paper:
            listed += [(item_id, study) for item_id in item.ids for study in item.studies]
    assert sorted(listed) == sorted(covered)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"{item.paper} {item.name[:30]}")
def test_a_row_says_who_makes_it_and_what_was_found(item: Item) -> None:
    assert item.ids or item.name.startswith("§"), (
        "a table, a figure, an ablation by its name, or a claim by its section"
    )
    assert item.ours.startswith(("[", "not reproduced: "))
    assert all(study in STUDIES for study in item.studies)
    assert "" not in (item.exact, item.reading, item.found)
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", f"{item.ours} {item.found}"):
        assert (DOCS / link).is_file(), link
    pages = [f"results/{study}-small.md" for study in item.studies]
    for page in pages:
        if item.ids and (DOCS / page).is_file():
            assert page in item.found, f"what {page} found"
    if item.found == "not run":
        assert not any((DOCS / page).is_file() for page in pages)
