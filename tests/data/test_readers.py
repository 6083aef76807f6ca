"""Rows from files of every format, from `datasets` and from the demo: cells, line numbers, and what is wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyheads.config.task import Source
from manyheads.data import demo
from manyheads.data.chunk import CHUNK, Chunk
from manyheads.data.readers import read_chunks, source_name
from manyheads.errors import UserError

ROWS = [["a1", "a film, good", "3"], ["a2", 'he said "no"', "0"], ["a3", "zwei\nZeilen – ü", "1"]]


def read(folder: Path, content: str | bytes, name: str = "x.csv") -> Chunk:
    """Write a file and read it; it must fit into one chunk."""
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (chunk,) = read_chunks(Source(file=name), folder, "train")
    return chunk


def refusal(folder: Path, content: str | bytes, name: str = "x.csv", *, code: str) -> str:
    with pytest.raises(UserError) as caught:
        read(folder, content, name)
    assert str(caught.value).startswith(str(folder / name))
    assert caught.value.code == code
    return str(caught.value)


def delimited(mark: str, rows: list[list[str]]) -> str:
    def quoted(cell: str) -> str:
        return '"' + cell.replace('"', '""') + '"'

    return "".join(mark.join(map(quoted, row)) + "\n" for row in [["id", "text", "label"], *rows])


# --- formats ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_every_format_gives_the_same_rows(tmp_path: Path, ending: str, packed: bool) -> None:
    if ending == "parquet":
        columns = {name: [row[at] for row in ROWS] for at, name in enumerate(("id", "text", "label"))}
        pq.write_table(pa.table(columns), tmp_path / "raw")
        content = (tmp_path / "raw").read_bytes()
    elif ending == "jsonl":
        objects = [dict(zip(("id", "text", "label"), row, strict=True)) for row in ROWS]
        content = "".join(json.dumps(one) + "\n" for one in objects).encode()
    else:
        content = delimited("\t" if ending == "tsv" else ",", ROWS).encode()
    chunk = read(tmp_path, gzip.compress(content) if packed else content, f"x.{ending}{'.gz' if packed else ''}")
    assert chunk.columns == ["id", "text", "label"]
    assert chunk.cells == ROWS
    assert chunk.lines == ([2, 3, 4] if ending in ("csv", "tsv") else [1, 2, 3])
    assert chunk.faults == []


def test_a_file_is_found_compressed_and_plain_goes_first(tmp_path: Path) -> None:
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"text\npacked\n"))
    (only,) = read_chunks(Source(file="x.csv"), tmp_path, "train")
    assert only.cells == [["packed"]]
    assert read(tmp_path, "text\nplain\n").cells == [["plain"]]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_long_files_come_in_chunks_with_running_line_numbers(tmp_path: Path, ending: str) -> None:
    count = CHUNK + 2
    file = tmp_path / f"x.{ending}"
    if ending == "csv":
        file.write_text("n\n" + "".join(f"{i}\n" for i in range(count)))
    elif ending == "jsonl":
        file.write_text("".join(f'{{"n": "{i}"}}\n' for i in range(count)))
    else:
        pq.write_table(pa.table({"n": [str(i) for i in range(count)]}), file)
    chunks = list(read_chunks(Source(file=file.name), tmp_path, "train"))
    assert [len(chunk.cells) for chunk in chunks] == [CHUNK, 2]
    assert [row for chunk in chunks for row in chunk.cells] == [[str(i)] for i in range(count)]
    first = 2 if ending == "csv" else 1
    assert [line for chunk in chunks for line in chunk.lines] == list(range(first, first + count))


# --- csv -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", [",", "\t", ";"])
def test_csv_sees_its_delimiter_from_the_header(tmp_path: Path, mark: str) -> None:
    chunk = read(tmp_path, delimited(mark, [["1", "a, b; c\td", "2"]]))
    assert (chunk.columns, chunk.cells) == (["id", "text", "label"], [["1", "a, b; c\td", "2"]])


def test_tsv_has_tabs_whatever_its_header_looks_like(tmp_path: Path) -> None:
    chunk = read(tmp_path, "a,b,c\tlabel\nx\t1\n", "x.tsv")
    assert (chunk.columns, chunk.cells) == (["a,b,c", "label"], [["x", "1"]])


def test_byte_order_mark_spaces_in_header_and_windows_line_ends(tmp_path: Path) -> None:
    chunk = read(tmp_path, b"\xef\xbb\xbftext, label\r\na,1\r\nb,2")
    assert (chunk.columns, chunk.cells, chunk.lines) == (["text", "label"], [["a", "1"], ["b", "2"]], [2, 3])
    assert read(tmp_path, b'\xef\xbb\xbf{"text": "a"}\r\n', "x.jsonl").columns == ["text"]


def test_line_numbers_are_those_of_the_file_in_spite_of_quoted_and_blank_lines(tmp_path: Path) -> None:
    chunk = read(tmp_path, '"text",label\n"one\ntwo\nthree",1\n\nb,2\nc\n"d\ne",3\nf,4\n')
    assert chunk.cells == [["one\ntwo\nthree", "1"], ["b", "2"], None, ["d\ne", "3"], ["f", "4"]]
    assert chunk.lines == [2, 6, 7, 8, 10]


def test_blank_name_of_the_first_column_is_kept(tmp_path: Path) -> None:
    chunk = read(tmp_path, "\ttext\tlabel\n0\ta\t1\n")
    assert (chunk.columns, chunk.cells) == (["", "text", "label"], [["0", "a", "1"]])


def test_header_that_leaves_out_the_index_column(tmp_path: Path) -> None:
    chunk = read(tmp_path, "text\tlabel\n0\ta\t1\n1\tb\t2\n2\tc\n")
    assert chunk.columns == ["", "text", "label"]
    assert chunk.cells == [["0", "a", "1"], ["1", "b", "2"], None]
    assert chunk.faults == ["2 cells where the header has 3"]


def test_only_the_first_row_decides_about_the_header(tmp_path: Path) -> None:
    """A row with a cell too many stays a bad row wherever it stands, at the start of a chunk too."""
    lines = ["text,label", *(f"t{i},1" for i in range(CHUNK)), "one,more,1", "last,1"]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    _, second = read_chunks(Source(file="x.csv"), tmp_path, "train")
    assert second.columns == ["text", "label"]
    assert second.cells == [None, ["last", "1"]]
    assert second.faults == ["3 cells where the header has 2"]


def test_rows_of_wrong_width_are_faults_in_order(tmp_path: Path) -> None:
    chunk = read(tmp_path, "a,b\n1,2\n1\n1,2,3\n1,2,3,4\n5,6\n")
    assert chunk.cells == [["1", "2"], None, None, None, ["5", "6"]]
    assert chunk.faults == [f"{cells} cells where the header has 2" for cells in (1, 3, 4)]


def test_a_quote_that_never_closes_is_a_fault_at_the_line_where_it_opens(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"x\.csv:3: not valid csv") as caught:
        read(tmp_path, 'text,label\na,1\n"b,2\nc,3\nd,4\n')
    assert caught.value.code == "bad-csv"


def test_stray_quotes_do_not_merge_rows(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"x\.tsv:2: not valid csv") as caught:
        read(tmp_path, 'text\tlabel\n"a fine\t1\nb\t0\nc\t1\n"d\t0\n', "x.tsv")
    assert caught.value.code == "bad-csv"


def test_very_long_cells_are_read(tmp_path: Path) -> None:
    assert read(tmp_path, f"text,label\n{'x' * 300_000},1\n").cells == [["x" * 300_000, "1"]]


# --- jsonl -----------------------------------------------------------------------------------------------------


def test_json_objects_may_have_different_keys(tmp_path: Path) -> None:
    chunk = read(tmp_path, '{"text": "a"}\n\n{"label": 1, "text": "b"}\n{"id": null, "label": 2.5}\n', "x.jsonl")
    assert chunk.columns == ["text", "label", "id"]
    assert chunk.cells == [["a", None, None], ["b", 1, None], [None, 2.5, None]]
    assert chunk.lines == [1, 3, 4]


def test_lines_that_are_no_json_object_are_faults(tmp_path: Path) -> None:
    text = '{"text": "a"}\n{"text": "b"\n["c"]\n{"text": "half \\ud83d"}\n{"text": "whole \\ud83d\\ude00"}\n'
    chunk = read(tmp_path, text, "x.jsonl")
    assert chunk.cells == [["a"], None, None, None, ["whole 😀"]]
    assert chunk.faults == ["not a JSON object"] * 2 + ["half of a surrogate pair in a text"]


# --- files that cannot be read ---------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["", "\n", "  \n"])
def test_a_csv_without_header_is_refused(tmp_path: Path, content: str) -> None:
    assert "empty; expected a header line" in refusal(tmp_path, content, code="empty-file")


def test_a_header_alone_is_no_rows(tmp_path: Path) -> None:
    chunk = read(tmp_path, "text,label\n")
    assert (chunk.columns, chunk.cells) == (["text", "label"], [])
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "x.parquet")
    (chunk,) = read_chunks(Source(file="x.parquet"), tmp_path, "train")
    assert (chunk.columns, chunk.cells) == (["text"], [])


@pytest.mark.parametrize("content", ["", '["a",\n"b"]\n'])
def test_a_jsonl_without_objects_is_refused(tmp_path: Path, content: str) -> None:
    assert "no JSON object in it; expected one in each line" in refusal(tmp_path, content, "x.jsonl", code="bad-jsonl")


@pytest.mark.parametrize("damage", ["no gzip", "cut", "flipped"])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_bad_gzip_is_refused(tmp_path: Path, ending: str, damage: str) -> None:
    good = gzip.compress(b"".join(b'{"text": "%d"}\n' % (i * i) for i in range(2000)))
    flipped = good[:40] + bytes(255 - byte for byte in good[40:80]) + good[80:]
    content = {"no gzip": b"text,label\na,1\n", "cut": good[:-20], "flipped": flipped}[damage]
    if (ending, damage) == ("parquet", "no gzip"):
        assert "not a valid parquet file" in refusal(tmp_path, content, "x.parquet.gz", code="bad-parquet")
        return
    assert "cannot be read" in refusal(tmp_path, content, f"x.{ending}.gz", code="unreadable-file")


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_wrong_encoding_is_refused(tmp_path: Path, ending: str) -> None:
    content = '{"text": "a"}\n{"text": "café"}\n'.encode("latin-1")
    message = refusal(tmp_path, content, f"x.{ending}", code="unreadable-file")
    assert f"x.{ending}:2: byte 0xe9 is not UTF-8." in message
    assert f"`iconv -f WINDOWS-1252 -t UTF-8 x.{ending} > utf8-x.{ending}`" in message
    assert "x.csv:1: byte 0xff is not UTF-8" in refusal(tmp_path, "a,b\n1,2\n".encode("utf-16"), code="unreadable-file")


@pytest.mark.parametrize("content", [b"", b"no parquet", b"PAR1" + b"x" * 100 + b"\x10\0\0\0PAR1"])
def test_a_bad_parquet_is_refused(tmp_path: Path, content: bytes) -> None:
    assert "not a valid parquet file" in refusal(tmp_path, content, "x.parquet", code="bad-parquet")


@pytest.mark.parametrize("name", ["x.dat", "x.json", "x", "x.gz", "x.xlsx.gz"])
def test_unknown_endings_are_refused(tmp_path: Path, name: str) -> None:
    message = refusal(tmp_path, "text\na\n", name, code="unknown-format")
    assert "Known: csv, tsv, jsonl, parquet, txt, trees, conll, each optionally .gz. Say which it is" in message


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.csv: no such file") as caught:
        next(read_chunks(Source(file="nowhere.csv"), tmp_path, "train"))
    assert caught.value.code == "no-such-file"


# --- hub and demo ----------------------------------------------------------------------------------------------


@pytest.fixture
def hub_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set as the hub lays it out; `datasets` reads a local folder with the same code."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}
    )
    folder = tmp_path / "set"
    (folder / "data").mkdir(parents=True)
    splits: dict[str, dict[str, list[Any]]] = {
        "train": {"text": ["a", "b", "c"], "label": [1, 0, None]},
        "validation": {"text": ["d"], "label": [1]},
        "test": {"text": ["e", "f"], "label": [-1, -1]},
    }
    for split, columns in splits.items():
        datasets.Dataset.from_dict(columns, features=features).to_parquet(folder / "data" / f"{split}-0.parquet")
    return folder


def hub_rows(folder: Path, key: str, **settings: str) -> list[Any]:
    (chunk,) = read_chunks(Source(hub=str(folder), **settings), Path("unused"), key)
    assert chunk.columns == ["text", "label"]
    assert chunk.lines == list(range(1, len(chunk.cells) + 1))
    return chunk.cells


def test_hub_gives_class_names_and_no_label_for_minus_one(hub_folder: Path) -> None:
    assert hub_rows(hub_folder, "train") == [["a", "good"], ["b", "bad"], ["c", None]]
    assert hub_rows(hub_folder, "test") == [["e", None], ["f", None]]


def test_hub_split_is_validation_for_dev_unless_named(hub_folder: Path) -> None:
    assert hub_rows(hub_folder, "dev") == [["d", "good"]]
    assert hub_rows(hub_folder, "dev", split="train[:1]") == [["a", "good"]]


def test_hub_failures_say_what_was_asked_for(hub_folder: Path) -> None:
    with pytest.raises(UserError, match=rf"^hub:{hub_folder}: split 'dev' cannot be loaded: ") as caught:
        hub_rows(hub_folder, "train", split="dev")
    assert caught.value.code == "no-hub-dataset"
    with pytest.raises(
        UserError, match=r"^hub:nobody/nothing \(configuration x\): split 'train' cannot be loaded: "
    ) as caught:
        hub_rows(Path("nobody/nothing"), "train", config="x")
    assert caught.value.code == "no-hub-dataset"
    assert "without network only a local folder or a cached data set works" in str(caught.value)


def test_demo_rows_are_those_of_the_generator(tmp_path: Path) -> None:
    (chunk,) = read_chunks(Source(demo="paraphrase"), tmp_path, "dev")
    expected = demo.demo_rows("paraphrase", "dev")
    assert chunk.columns == ["id", "sentence1", "sentence2", "is_duplicate"]
    assert chunk.cells == [list(row.values()) for row in expected]
    (test,) = read_chunks(Source(demo="paraphrase", split="test"), tmp_path, "dev")
    assert test.cells != chunk.cells


def test_unknown_demo_names_are_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Unknown demo task 'sentimant'\. Did you mean 'sentiment'") as caught:
        next(read_chunks(Source(demo="sentimant"), tmp_path, "dev"))
    assert caught.value.code == "unknown-demo-task"
    with pytest.raises(UserError, match=r"Unknown demo split 'tran'\. Did you mean 'train'") as caught:
        next(read_chunks(Source(demo="sentiment", split="tran"), tmp_path, "dev"))
    assert caught.value.code == "unknown-demo-split"


def test_names_of_sources_in_messages() -> None:
    assert source_name(Source(file="a/x.csv"), "dev") == "a/x.csv"
    assert source_name(Source(demo="sentiment"), "dev") == "demo:sentiment/dev"
    assert source_name(Source(hub="some/set", split="train"), "dev") == "hub:some/set/train"
