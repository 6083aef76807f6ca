"""Rows of large files: kept in the cache as they were read, looked at without copies, named by what is in them."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.config.task import Source
from manyheads.data import chunk as chunks
from manyheads.data import dataset as reading
from manyheads.data import readers
from manyheads.data import rows as rows_module
from manyheads.data import table as raw_rows
from manyheads.data.chunk import Chunk
from manyheads.data.dataset import Dataset, label_rows, read_rows
from manyheads.data.labels import BETWEEN, FAULT, NONE, BadLabel, LabelReader
from manyheads.data.table import BadRow, Columns, Table
from manyheads.errors import UserError
from manyheads.model.task_tokens import TaskTokens
from manyheads.storage import strings
from manyheads.storage.cache import FORMAT
from manyheads.storage.strings import CachedStrings, Strings
from manyheads.tasks.load import load_tasks
from manyheads.tasks.resolve import load_recipe
from manyheads.tokens import column as tokens
from manyheads.tokens.column import tokenise
from manyheads.tokens.tokenizer import Tokenizer

TEXT = Columns(("text",), "label", None)
CLASSES = LabelReader("classification", ("0", "1", "2"), {"0": 0, "1": 1, "2": 2})
SEVERAL = LabelReader("multi-label", ("a", "b"), {"a": 0, "b": 1}, separator="|")
NUMBERS = LabelReader("regression", range=(0, 5))
BAD = 'text,label\na,0\n  ,1\nb\nc,\n\n"d\ne",7\n é ,2.0\nf,g,1\ng, 1\n'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every file is large, and a chunk small."""
    monkeypatch.setenv("MANYHEADS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(raw_rows, "LARGE", 0)
    for module in (chunks, readers):
        monkeypatch.setattr(module, "CHUNK", 3)
    monkeypatch.setattr(strings, "PIECE", 2)
    return tmp_path / "cache" / FORMAT / "rows"


def read(folder: Path, *files: str, columns: Columns = TEXT) -> Table:
    return read_rows([Source(file=file) for file in files], folder, "train", columns, "recipe: tasks.a.train")


def content(raw: Table) -> list[Any]:
    """Everything of rows, for comparison."""
    labels = raw.labels and raw.labels.to_pylist()
    texts = [column.to_pylist() for column in raw.texts]
    return [texts, labels, raw.ids.to_pylist(), raw.lines.tolist(), raw.files.tolist(), raw.sources, raw.bad]


# --- kept rows -------------------------------------------------------------------------------------------------


def write_files(folder: Path) -> None:
    (folder / "bad.csv").write_text(BAD)
    (folder / "pairs.tsv").write_text("id\ttext\tother\tx\ty\nk1\ta\tb\t1\tno\n k2\tc\td\t\t\nk3\te\tf\t2\t0\n")
    (folder / "odd.jsonl").write_text(
        '{"text": "a", "label": ["0", 1]}\n[]\n{"text": {"b": 1}, "label": 1}\n{"text": 7, "label": true}\n'
        '{"text": "c", "label": 1.0}\n{"label": null, "text": "d", "id": 5}\n'
    )
    with gzip.open(folder / "packed.csv.gz", "wt") as file:
        file.write("label,text\n" + "".join(f"{i % 3},text {i}\n" for i in range(8)))
    pq.write_table(pa.table({"text": ["a", None, "c"], "label": [1.0, 2.0, math.nan]}), folder / "x.parquet")


FILES: list[tuple[tuple[str, ...], Columns]] = [
    (("bad.csv",), TEXT),
    (("bad.csv", "packed.csv", "bad.csv"), TEXT),
    (("pairs.tsv",), Columns(("other", "text"), ("x", "y"), None)),
    (("pairs.tsv",), Columns(("text",), None, "other")),
    (("odd.jsonl",), TEXT),
    (("x.parquet", "packed.csv"), TEXT),
]


def test_a_file_that_changes_while_it_is_read_is_not_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its rows would be found by the fingerprint of what the file was before."""
    file = tmp_path / "a.csv"
    before = "text,label\na,0\nb,1\n"
    file.write_text(before)
    usable_rows = reading.usable_rows

    def save_then_read(*arguments: Any) -> Iterator[Any]:
        file.write_text("text,label\nc,1\nd,2\n")
        yield from usable_rows(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(reading, "usable_rows", save_then_read)
        with pytest.raises(UserError, match=r"a.csv was changed while it was read") as caught:
            read(tmp_path, "a.csv")
    assert caught.value.code == "file-changed"
    file.write_text(before)
    assert read(tmp_path, "a.csv").texts[0].to_pylist() == ["a", "b"]


@pytest.mark.parametrize(("files", "columns"), FILES)
def test_kept_rows_are_those_that_were_read(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...], columns: Columns
) -> None:
    write_files(tmp_path)
    written = content(read(tmp_path, *files, columns=columns))
    assert len(list(cache.iterdir())) == 1
    with monkeypatch.context() as patch:
        patch.setattr(raw_rows, "LARGE", 1e9)
        assert written == content(read(tmp_path, *files, columns=columns)), "as when they are held in memory"
    monkeypatch.setattr(rows_module, "read_chunks", None)
    assert written == content(read(tmp_path, *files, columns=columns)), "from the cache alone"


def test_bad_rows_are_told_the_same_from_the_cache(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(BAD)
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            label_rows(read(tmp_path, "x.csv"), CLASSES, False, "here")
        assert str(caught.value).split("\n")[:-1] == [
            "here: 5 bad rows of 8:",
            "  x.csv:3: empty text in column 'text'",
            "  x.csv:4: 1 cells where the header has 2",
            "  x.csv:5: no label",
            "  x.csv:7: label '7' is not one of 0, 1, 2",
            "  x.csv:10: 3 cells where the header has 2",
        ]
        found = label_rows(read(tmp_path, "x.csv"), CLASSES, True, "here")
        assert (found.skipped, found.ids.to_pylist(), found.location(1)) == (5, ["0", "5", "7"], "x.csv:9")


def test_a_file_that_changed_is_read_anew(tmp_path: Path, cache: Path) -> None:
    for text in ("one", "two", "one"):
        (tmp_path / "x.csv").write_text(f"text,label\n{text},0\n")
        assert read(tmp_path, "x.csv").texts[0].to_pylist() == [text]
    assert len(list(cache.iterdir())) == 2
    (tmp_path / "other.csv").write_text("text,label\none,0\n")
    assert read(tmp_path, "other.csv").location(0) == "other.csv:2", "the same rows under another name"
    assert len(list(cache.iterdir())) == 2


def test_a_file_that_is_read_in_another_way_is_read_anew(tmp_path: Path, cache: Path) -> None:
    """Identical files read with other settings are other rows."""
    (tmp_path / "x.dat").write_text('text\tlabel\n"a"\t0\nb; c\t1\n')
    expected: dict[str, list[str]] = {
        '{"format": "tsv"}': ["a", "b; c"],
        '{"format": "csv"}': ["a", "b; c"],
        '{"format": "tsv", "quoting": "csv"}': ["a", "b; c"],
        '{"format": "tsv", "quoting": "none"}': ['"a"', "b; c"],
        '{"format": "tsv", "quoting": "none", "columns": ["text", "other"]}': ["text", '"a"', "b; c"],
        '{"format": "tsv", "quoting": "none", "columns": ["other", "text"]}': ["label", "0", "1"],
        '{"format": "txt"}': ["text\tlabel", '"a"\t0', "b; c\t1"],
    }
    for _ in range(2):
        for layout, texts in expected.items():
            source = Source(file="x.dat", **json.loads(layout))
            table = read_rows([source], tmp_path, "test", Columns(("text",), None, None), "here")
            assert table.texts[0].to_pylist() == texts, layout
        assert len(list(cache.iterdir())) == len(expected)


def test_small_files_are_held_in_memory(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_rows, "LARGE", 1000)
    (tmp_path / "x.csv").write_text(BAD)
    read(tmp_path, "x.csv")
    assert not cache.exists()


def test_a_reader_that_breaks_off_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "x.csv").write_text('text,label\na,0\nb,1\nc,1\nd,1\n"open,1\n')
    for _ in range(2):
        with pytest.raises(UserError, match=r"x\.csv:6: not valid csv"):
            read(tmp_path, "x.csv")
        assert list(cache.iterdir()) == []


def test_what_a_killed_run_left_is_not_taken_for_rows(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "x.csv").write_text(BAD)
    (cache / ".writing-before").mkdir(parents=True)
    (cache / ".writing-before" / "text-0.bin").write_text("half")
    assert read(tmp_path, "x.csv").texts[0].to_pylist() == ["a", "c", "d\ne", "é", "g"]


def test_two_runs_at_once_end_with_one_whole_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.csv").write_text(BAD)
    original = reading.usable_rows

    def overtaken(*given: Any) -> Iterator[raw_rows.TableChunk]:
        yield from original(*given)
        monkeypatch.setattr(reading, "usable_rows", original)
        read(tmp_path, "x.csv")  # the other run finishes while this one still writes

    monkeypatch.setattr(reading, "usable_rows", overtaken)
    assert read(tmp_path, "x.csv").texts[0].to_pylist() == ["a", "c", "d\ne", "é", "g"]
    assert len(list(cache.iterdir())) == 1


def test_rows_in_use_outlive_the_cache(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "x.csv").write_text(BAD)
    expected, found = content(read(tmp_path, "x.csv")), read(tmp_path, "x.csv")
    shutil.rmtree(cache)
    assert content(found) == expected


@pytest.mark.parametrize(
    "file", ["text-0.bin", "text-0_starts.bin", "label.bin", "lines.bin", "files.bin", "meta.json"]
)
def test_a_damaged_cache_is_told_with_what_to_do(tmp_path: Path, cache: Path, file: str) -> None:
    (tmp_path / "x.csv").write_text(BAD)
    read(tmp_path, "x.csv")
    (found,) = cache.iterdir()
    (found / file).write_bytes((found / file).read_bytes()[:-1])
    expected = f"^{found}: this cache entry is damaged .*Delete that folder and run again"
    with pytest.raises(UserError, match=expected) as caught:
        read(tmp_path, "x.csv")
    assert caught.value.code == "cache-damaged"


def test_where_the_cache_cannot_be_written_rows_are_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MANYHEADS_CACHE", str(tmp_path / "file"))
    (tmp_path / "x.csv").write_text(BAD)
    assert read(tmp_path, "x.csv").ids.to_pylist() == ["0", "3", "4", "5", "7"]


# --- chunks and labels, all at once and one by one -------------------------------------------------------------


CELLS = st.one_of(
    st.none(), st.booleans(), st.integers(0, 2), st.sampled_from([0.0, 1.0, 2.5, math.nan]), st.just(b"x"),
    st.sampled_from(["a", " b ", "", "1", "1.0", "True", "nan", "\x1f", "\u2003"]), st.just(["a", "1"]),
)  # fmt: skip
WORDS = st.sampled_from(["a", " b", "1", "1.0", "True", "c\u2003"])


@pytest.mark.slow
@given(st.lists(st.lists(WORDS, min_size=4, max_size=4), max_size=6), st.data())
def test_plain_chunks_are_read_as_row_by_row(rows: list[list[Any]], data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(0, 2)) if rows else 0):
        row, column = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.integers(0, 3))
        rows[row][column] = data.draw(CELLS)
    names = data.draw(st.sampled_from([["t", "u", "x", "y"], ["t", "u", "x", "id"], ["t", "t", "u", "x"]]))
    label = data.draw(st.sampled_from(["x", None, ("x", "t")]))
    columns = Columns(("t", "u"), label, data.draw(st.sampled_from([None, "x"])))
    chunk = Chunk(names, list(rows), list(range(2, 2 + len(rows))), [])
    bad: list[BadRow] = []
    exact = rows_module.checked_rows(1, chunk, columns, 7, bad)
    quick = rows_module.plain_rows(1, chunk, columns, 7)
    assert quick is None or (quick == exact and not bad)
    if rows and all(isinstance(cell, str) and cell.strip() for row in rows for cell in row):
        assert quick is not None, "nothing is odd here"


LABELS = {
    CLASSES.kind: (CLASSES, ["0", "1", "2", "9", "", NONE, FAULT + "odd"]),
    SEVERAL.kind: (SEVERAL, ["a", "a|b", f"{BETWEEN}b", "c", "", NONE, FAULT + "odd"]),
    NUMBERS.kind: (NUMBERS, ["0", "4.5", "1e-3", "9", "x", "", FAULT + "odd"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LABELS)
@given(data=st.data(), blanks=st.booleans())
def test_labels_by_distinct_value_are_those_one_by_one(kind: str, data: st.DataObject, blanks: bool) -> None:
    reader, words = LABELS[kind]
    found = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=12))
    lines = np.arange(len(found)) + 2
    raw = Table((), Strings.of(found), Strings.of(found), lines, np.zeros(len(found), dtype=np.int16), ("x",), [])
    bad: list[BadRow] = []
    labels = reading._read_labels(raw, reader, bad, blanks)
    expected: list[BadRow] = []
    for row, word in enumerate(found):
        value = reader.unlabelled(1)[0]
        try:
            if word or not blanks:
                value = reader.read(word)
                if kind == "multi-label":
                    np.testing.assert_array_equal(value, [int(name in word) for name in reader.names])
        except BadLabel as fault:
            expected.append(BadRow(0, row + 2, str(fault)))
        np.testing.assert_array_equal(labels[row], value)
    assert bad == expected


# --- views -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1), st.data())
def test_a_view_of_a_view_equals_a_copy(texts: list[str], data: st.DataObject) -> None:
    some = np.array(data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1)))
    again = np.array(data.draw(st.lists(st.integers(0, len(some) - 1))), dtype=np.int64)
    found = Strings.of(texts).take(some).take(again)
    expected = [texts[row] for row in some[again]]
    assert found.to_pylist() == expected == [found[row].as_py() for row in range(len(found))]
    assert found.distinct().to_pylist() == list(dict.fromkeys(expected))
    assert [part.to_pylist() for part in found.parts(3)] == [expected[at : at + 3] for at in range(0, len(expected), 3)]


def test_a_view_of_kept_rows_equals_that_of_rows_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    found: list[Dataset] = []
    for large in (0, 1e9):
        monkeypatch.setattr(raw_rows, "LARGE", large)
        one = label_rows(read(tmp_path, "bad.csv", "packed.csv"), CLASSES, True, "here")
        found.append(one.take(np.array([9, 1, 4, 0])).take(np.array([0, 2, 1])))
    kept, held = found
    assert isinstance(kept.texts[0].source, CachedStrings)
    assert kept.texts[0].to_pylist() == held.texts[0].to_pylist() == ["text 6", "text 1", "é"]
    assert kept.ids.to_pylist() == held.ids.to_pylist() == ["14", "9", "5"]
    assert kept.lines.tolist() == held.lines.tolist() == [8, 3, 9]
    assert [kept.location(row) for row in range(3)] == ["packed.csv:8", "packed.csv:3", "bad.csv:9"]
    assert np.array_equal(kept.labels, held.labels)  # type: ignore[arg-type]


# --- fingerprints ----------------------------------------------------------------------------------------------


def naive(tokenizer: str, texts: list[str]) -> str:
    """How texts have been named from the beginning; results of finished runs are compared by it."""
    digest = hashlib.sha256(tokenizer.encode())
    for text in texts:
        raw = text.encode()
        digest.update(len(raw).to_bytes(4, "little") + raw)
    return digest.hexdigest()[:32]


def test_names_of_texts_are_what_they_always_were(
    toy_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "TEXTS_PER_CALL", 3)
    toy = Tokenizer(toy_encoder)
    texts = ["a good film", "\x00", "naïve 🎬", "the", "a " * 300, "old men", "x"]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"text": one, "label": 0}) + "\n" for one in texts))
    kept = read(tmp_path, "x.jsonl").texts[0]
    texts = [one.strip() for one in texts]
    rows = np.array([5, 0, 2, 3])
    for column in (Strings.of(texts), kept):
        assert tokenise(column, toy).fingerprint == naive(toy.fingerprint, texts)
        assert tokenise(column.take(rows), toy).fingerprint == naive(toy.fingerprint, [texts[row] for row in rows])
    assert naive("", ["a", "é"]) == "05a519c01404d2418818913d31f3c7ce"
    monkeypatch.setattr(tokens, "_digest", None)
    assert tokenise(kept.take(rows), toy).fingerprint == naive(toy.fingerprint, [texts[row] for row in rows])
    other = Tokenizer(toy_encoder)
    other.fingerprint = "other"
    with pytest.raises(TypeError):
        tokenise(kept.take(rows), other)


def test_names_of_data_are_what_they_always_were(
    toy_recipe: Callable[..., dict[str, Any]], toy_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = Tokenizer(toy_encoder)
    for large in (0, 1e9):
        monkeypatch.setattr(raw_rows, "LARGE", large)
        for data in load_tasks(load_recipe(toy_recipe())).values():
            for split in (data.train, data.dev):
                names = [naive(toy.fingerprint, column.to_pylist()) for column in split.texts]
                assert split.labels is not None
                expected = hashlib.sha256(" ".join(names).encode() + split.labels.tobytes()).hexdigest()[:32]
                assert TaskTokens(data.task, split, toy).fingerprint() == expected
