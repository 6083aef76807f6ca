"""The tables under docs/results are what the results beside them give."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import manyheads
from conftest import SHARED_DATA
from manyheads.studies.load import shipped_studies

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "results"
FILES = sorted(FOLDER.glob("*.jsonl.gz"))


def test_there_are_results() -> None:
    assert [file.name.removesuffix(".jsonl.gz") for file in FILES] == sorted(
        file.stem for file in FOLDER.glob("*.md") if file.name != "README.md"
    )


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the real data, by which runs are known, is not here")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_table_is_what_its_results_give(file: Path, tmp_path: Path) -> None:
    name, _, scale = file.name.removesuffix(".jsonl.gz").rpartition("-")
    study = next(one for one in shipped_studies() if Path(one).name == name)
    assert manyheads("study", "import", file, "--output", tmp_path).returncode == 0
    words = ["study", "table", study, f"data.root={SHARED_DATA}", "--scale", scale, "--format", "markdown"]
    found = manyheads(*words, "--output", tmp_path)
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() in file.with_name(f"{name}-{scale}.md").read_text(encoding="utf-8")
