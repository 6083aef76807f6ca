"""Files and folders take their names only when what is in them is on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from manyheads.errors import UserError
from manyheads.storage.files import check_folder, write_bytes, write_folder


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is synced, in order."""
    names: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: names.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
    )
    return names


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="names open files by /proc")
def test_a_folder_is_renamed_after_all_of_it_is_synced(tmp_path: Path, synced: list[str]) -> None:
    def fill(folder: Path) -> None:
        (folder / "a").write_text("a")
        (folder / "below").mkdir()
        (folder / "below" / "b").write_text("b")
        assert synced == []

    write_folder(tmp_path / "whole", fill)
    assert synced == ["a", "b", "checksums.json", ".whole.new", tmp_path.name]


@pytest.mark.parametrize("sums", ["{}", "[]", "7", "", '{"a.json": "0"}'])
def test_checksums_name_every_file(tmp_path: Path, sums: str) -> None:
    folder = tmp_path / "whole"
    write_folder(folder, lambda aside: (aside / "a.json").write_text("{}") and None)
    (folder / "notes.txt").write_text("someone's own")
    check_folder(folder)
    (folder / "checksums.json").write_text(sums)
    with pytest.raises(UserError) as caught:
        check_folder(folder)
    assert caught.value.code == "damaged-checkpoint"


def test_some_files_may_change_and_a_folder_may_have_checksums_of_its_own(tmp_path: Path) -> None:
    def fill(aside: Path) -> None:
        (aside / "a.json").write_text("{}")
        (aside / "README.md").write_text("first")
        write_folder(aside / "inner", lambda inner: (inner / "b.json").write_text("{}") and None)

    folder = tmp_path / "whole"
    write_folder(folder, fill, unlisted=("README.md", "inner"))
    assert list(json.loads((folder / "checksums.json").read_text())) == ["a.json"]
    (folder / "README.md").write_text("second")
    check_folder(folder)
    check_folder(folder / "inner")
    (folder / "inner" / "checksums.json").unlink()
    with pytest.raises(UserError) as caught:
        check_folder(folder)
    assert caught.value.code == "damaged-checkpoint"


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="names open files by /proc")
def test_a_file_is_renamed_after_it_is_synced(tmp_path: Path, synced: list[str]) -> None:
    write_bytes(tmp_path / "file", b"content")
    assert synced == [".file.new"]
    assert (tmp_path / "file").read_bytes() == b"content"
