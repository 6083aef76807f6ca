"""The cache: entries are complete or not there, read as they were written, and removed when they are old."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from manyheads.errors import UserError
from manyheads.storage.cache import (
    FORMAT,
    CacheNotWritable,
    EntryWriter,
    cache_folder,
    cached,
    entry_folder,
    open_entry,
    remove_entry,
    remove_least_recently_used,
    write_entry,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MANYHEADS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / FORMAT / "kind"


def fill(writer: EntryWriter) -> None:
    for first in (0, 2):
        writer.append("numbers", np.arange(first, first + 2, dtype=np.int16))
        writer.append("vectors", np.full((2, 3), first, dtype=np.float32).T.copy().T)
        writer.append_ragged("words", np.arange(first + 1, dtype=np.int32), np.array([first, 1]))
    writer.append("nothing", np.empty((0, 4)))
    writer.notes["who"] = ["é", 1]


def test_an_entry_is_read_as_it_was_written(cache: Path) -> None:
    assert open_entry("kind", "a") is None
    entry = cached("kind", "a", fill)
    assert entry.folder == entry_folder("kind", "a") == cache / "a"
    for again in (entry, open_entry("kind", "a")):
        assert again is not None
        assert (again.column("numbers").dtype, again.column("numbers").tolist()) == (np.int16, [0, 1, 2, 3])
        assert again.column("vectors").tolist() == [[0.0] * 3] * 2 + [[2.0] * 3] * 2
        assert again.column("nothing").shape == (0, 4)
        assert [row.tolist() for row in again.ragged("words")] == [[], [0], [0, 1], [2]]
        assert again.notes == {"who": ["é", 1]}


def test_a_column_is_mapped_and_not_read(cache: Path) -> None:
    column = cached("kind", "a", fill).column("numbers")
    assert not column.flags.owndata
    assert not column.flags.writeable


def test_an_entry_is_filled_once() -> None:
    cached("kind", "a", fill)

    def refuse(writer: EntryWriter) -> None:
        raise AssertionError("filled again")

    cached("kind", "a", refuse)
    with pytest.raises(AssertionError, match="filled again"):
        cached("kind", "b", refuse)


def test_a_writer_that_breaks_off_leaves_nothing(cache: Path) -> None:
    def fill_and_break_off(writer: EntryWriter) -> None:
        fill(writer)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        cached("kind", "a", fill_and_break_off)
    assert list(cache.iterdir()) == []


def test_of_two_writers_the_quicker_one_is_kept(cache: Path) -> None:
    with write_entry("kind", "a") as slow:
        slow.append("numbers", np.array([1]))
        with write_entry("kind", "a") as quick:
            quick.append("numbers", np.array([2]))
    entry = open_entry("kind", "a")
    assert entry is not None
    assert entry.column("numbers").tolist() == [2]
    assert [folder.name for folder in cache.iterdir()] == ["a"]


def test_an_open_entry_outlives_its_folder(cache: Path) -> None:
    entry = cached("kind", "a", fill)
    shutil.rmtree(cache)
    assert entry.column("numbers").tolist() == [0, 1, 2, 3]
    assert entry.remember("sum", lambda: "6") == "6", "though it cannot be written down"


@pytest.mark.parametrize("damage", ["shorter", "longer", "missing", "one bit"])
@pytest.mark.parametrize("file", ["numbers.bin", "vectors.bin", "words_starts.bin", "meta.json"])
def test_a_damaged_entry_is_refused(cache: Path, file: str, damage: str) -> None:
    cached("kind", "a", fill)
    damaged = cache / "a" / file
    content = damaged.read_bytes()
    if damage == "missing":
        damaged.unlink()
    elif damage == "one bit":
        damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    else:
        damaged.write_bytes(content[:-1] if damage == "shorter" else content + b"x")
    with pytest.raises(UserError, match=f"^{cache / 'a'}: this cache entry is damaged .*Delete that folder") as caught:
        open_entry("kind", "a")
    assert caught.value.code == "cache-damaged"
    remove_entry("kind", "a")
    assert open_entry("kind", "a") is None


META_FILES = ["", "[]", '{"columns": {}}', '{"checksum": 1, "content": "{}"}', '{"checksum": 1, "content": 2}']


@pytest.mark.parametrize("content", META_FILES)
def test_a_meta_file_that_is_no_meta_file_is_refused(cache: Path, content: str) -> None:
    cached("kind", "a", fill)
    (cache / "a" / "meta.json").write_text(content)
    with pytest.raises(UserError, match="damaged"):
        open_entry("kind", "a")


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MANYHEADS_CACHE", str(tmp_path / "file"))
    with pytest.raises(CacheNotWritable, match="Set MANYHEADS_CACHE to another folder") as caught:
        cached("kind", "a", fill)
    assert caught.value.code == "cache-not-writable"


def test_a_text_is_computed_once() -> None:
    entry = cached("kind", "a", fill)
    assert entry.remember("sum", lambda: "6") == "6"
    assert entry.remember("sum", lambda: "7") == "6"
    assert entry.remember("product", lambda: "0") == "0"


def test_a_damaged_text_is_computed_again(cache: Path) -> None:
    entry = cached("kind", "a", fill)
    entry.remember("sum", lambda: "6")
    (file,) = set((cache / "a").glob("*.json")) - {cache / "a" / "meta.json"}
    file.write_text(file.read_text().replace("6", "5"))
    assert entry.remember("sum", lambda: "7") == "7"


def test_every_flipped_bit_of_a_description_is_found(cache: Path) -> None:
    cached("kind", "a", fill)
    meta = cache / "a" / "meta.json"
    content = meta.read_bytes()
    for position in range(0, len(content), 7):
        meta.write_bytes(content[:position] + bytes([content[position] ^ 4]) + content[position + 1 :])
        with pytest.raises(UserError, match="damaged"):
            open_entry("kind", "a")


def test_what_was_used_longest_ago_is_removed_first(cache: Path) -> None:
    for name in ("old", "older", "new"):
        cached("kind", name, fill)
    for age, name in enumerate(("new", "old", "older"), start=1):
        os.utime(cache / name, (1e9 - age, 1e9 - age))
    size = sum(file.stat().st_size for file in (cache / "new").iterdir())
    remove_least_recently_used("kind", 2.5 * size / 1e9, keep="new")
    assert {folder.name for folder in cache.iterdir()} == {"old", "new"}
    open_entry("kind", "old")  # using an entry makes it the youngest
    cached("kind", "newest", fill)
    os.utime(cache / "newest")
    remove_least_recently_used("kind", 2.5 * size / 1e9, keep="newest")
    assert {folder.name for folder in cache.iterdir()} == {"old", "newest"}
    remove_least_recently_used("kind", 0, keep="old")
    assert {folder.name for folder in cache.iterdir()} == {"old"}


def test_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANYHEADS_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("MANYHEADS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "manyheads"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "manyheads"
