"""The tables under docs/results are what the commands on their pages print.

A page, its export and the study that makes its table belong together. Where the shipped study has changed since, the
study as it was stands beside the export (NAME.study.yaml), and the page is headed by what differs.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command import manyheads
from conftest import SHARED_DATA
from manyheads.studies.load import shipped_studies
from manyheads.studies.study import open_study

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "results"
PAGES = sorted(file for file in FOLDER.glob("*.md") if file.name != "README.md")
EARLIER = sorted(FOLDER.glob("*.study.yaml"))
HEADING = "**Made with the earlier recipe:**"
DATA_NEEDED = pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the real data, by which runs are known, is not here")


def command_on(page: Path, start: str) -> list[str]:
    """The words after `start` of the page's one command that begins so."""
    commands = re.findall(rf"^    {start} (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(commands) == 1, f"{page.name} has {len(commands)} commands '{start}'"
    return str(commands[0]).split()


def shipped_name(page: Path) -> str:
    """'papers/e1-encodings' of e1-encodings-small.md."""
    name = page.stem.rpartition("-")[0]
    return next(study for study in shipped_studies() if Path(study).name == name)


def test_every_page_has_its_export() -> None:
    exports = [file.name.removesuffix(".jsonl.gz") for file in sorted(FOLDER.glob("*.jsonl.gz"))]
    assert exports == [page.stem for page in PAGES]
    assert {file.name.removesuffix(".study.yaml") for file in EARLIER} <= set(exports)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_its_own_files(page: Path) -> None:
    """The shipped study, or the one beside it: then, and only then, the page is headed by what differs."""
    earlier = page.with_name(f"{page.stem}.study.yaml")
    is_earlier = earlier in EARLIER
    study = f"docs/results/{earlier.name}" if is_earlier else shipped_name(page)
    assert command_on(page, "manyheads study import") == [f"docs/results/{page.stem}.jsonl.gz"]
    words = command_on(page, "manyheads study table")
    scale = page.stem.rpartition("-")[2]
    assert words[0] == study
    assert "data.root=FOLDER" in words
    assert ("--scale" in words) == (scale != "small"), "small is what a study runs at by itself"
    assert scale == "small" or words[words.index("--scale") + 1] == scale
    below_title = page.read_text(encoding="utf-8").partition("\n\n")[2]
    assert below_title.startswith(HEADING) == is_earlier


@pytest.mark.slow
@DATA_NEEDED
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_table_is_what_its_command_prints(page: Path, tmp_path: Path) -> None:
    [export] = command_on(page, "manyheads study import")
    study, *others = command_on(page, "manyheads study table")
    if study.startswith("docs/"):
        study = str(ROOT / study)
    others = [word.replace("FOLDER", str(SHARED_DATA)) for word in others]
    assert manyheads("study", "import", ROOT / export, "--output", tmp_path).returncode == 0
    table = manyheads("study", "table", study, *others, "--format", "markdown", "--output", tmp_path)
    assert table.returncode == 0, table.stderr
    assert table.stdout.strip() in page.read_text(encoding="utf-8")


@pytest.mark.slow
@DATA_NEEDED
@pytest.mark.parametrize("file", EARLIER, ids=lambda file: file.name)
def test_an_earlier_study_is_another_training(file: Path, tmp_path: Path) -> None:
    """Where the shipped study gives the very same runs again, the earlier one is no longer needed."""
    shipped = shipped_name(FOLDER / f"{file.name.removesuffix('.study.yaml')}.md")
    overrides = {"data.root": str(SHARED_DATA)}
    earlier_runs = open_study(str(file), None, tmp_path, overrides).runs
    shipped_runs = open_study(shipped, "small", tmp_path, overrides).runs
    assert {identity for identity, _ in earlier_runs} != {identity for identity, _ in shipped_runs}
