"""Files as people have them: no header, quotes as letters, a text per line, an ending that says nothing."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from manyheads.config.task import Source
from manyheads.data.chunk import Chunk
from manyheads.data.readers import read_chunks
from manyheads.errors import UserError

LABEL_TEXT = ["label", "text"]


def read(folder: Path, name: str, content: str | bytes, **layout: Any) -> Chunk:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (chunk,) = read_chunks(Source(file=name, **layout), folder, "train")
    return chunk


def refusal(folder: Path, name: str, content: str, code: str, **layout: Any) -> str:
    with pytest.raises(UserError) as caught:
        read(folder, name, content, **layout)
    assert caught.value.code == code
    assert str(caught.value).startswith(str(folder / name))
    return str(caught.value)


# --- no header -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.tsv", "1\tgood, really\n0\tbad\n"),
        ("x.tsv", "\ufeff1\tgood, really\r\n\r\n0\tbad\r\n"),
        ("x.tsv.gz", gzip.compress(b"1\tgood, really\n0\tbad\n", mtime=0)),  # a test's name holds no time
        ("x.csv", '1,"good, really"\n0,bad\n'),
        ("x.csv", "1;good, really\n0;bad\n"),
        ("x.csv", "\n1\tgood, really\n0\tbad\n"),
        ("x.txt", "1\tgood, really\n0\tbad\n"),
    ],
)
def test_the_first_line_is_a_row_where_columns_are_named(tmp_path: Path, name: str, content: str | bytes) -> None:
    chunk = read(tmp_path, name, content, columns=LABEL_TEXT)
    assert chunk.columns == LABEL_TEXT
    assert chunk.cells == [["1", "good, really"], ["0", "bad"]]


def test_lines_count_from_the_first_and_rows_of_another_width_are_bad(tmp_path: Path) -> None:
    chunk = read(tmp_path, "x.tsv", "1\ta\n0\n\n1\tb\tc\n0\td\n", columns=LABEL_TEXT)
    assert chunk.cells == [["1", "a"], None, None, ["0", "d"]]
    assert chunk.lines == [1, 2, 4, 5]
    assert chunk.faults == ["1 cells where there are 2 columns", "3 cells where there are 2 columns"]


def test_the_delimiter_is_the_one_that_fits_the_columns_not_the_most_frequent(tmp_path: Path) -> None:
    lines = [f"a, b, and {number};{number % 3}\n" for number in range(30)]
    chunk = read(tmp_path, "x.csv", "".join(lines), columns=["text", "label"])
    assert chunk.cells[4] == ["a, b, and 4", "1"]
    chunk = read(tmp_path, "x.csv", "a,1,joy;fear\nb,2,joy\n", columns=["text", "number", "label"])
    assert chunk.cells[0] == ["a", "1", "joy;fear"]


@pytest.mark.parametrize("name", ["x.tsv", "x.txt"])
def test_a_header_is_not_read_as_data(tmp_path: Path, name: str) -> None:
    message = refusal(tmp_path, name, "Label\ttext\n1\ta\n", "header-and-columns", columns=LABEL_TEXT)
    assert f"{name}:1: this line holds the columns' names" in message
    assert "Leave out `columns`" in message


def test_an_empty_file_without_header_has_no_rows(tmp_path: Path) -> None:
    for name in ("x.tsv", "x.csv", "x.txt"):
        assert read(tmp_path, name, "\n", columns=LABEL_TEXT).cells == []


# --- formats ---------------------------------------------------------------------------------------------------


def test_format_goes_before_the_ending(tmp_path: Path) -> None:
    assert read(tmp_path, "x.dat", "text\tlabel\na\t1\n", format="tsv").cells == [["a", "1"]]
    assert read(tmp_path, "x.data.gz", gzip.compress(b'{"text": "a"}\n'), format="jsonl").cells == [["a"]]
    assert read(tmp_path, "x.txt", "text,label\na,1\n", format="csv").columns == ["text", "label"]
    assert read(tmp_path, "x.csv", "a, b\n", format="txt").cells == [["a, b"]]


def test_a_txt_file_is_a_text_per_line(tmp_path: Path) -> None:
    chunk = read(tmp_path, "x.txt", '\ufeff"One", she said.\r\n\r\n a\ttab \nlast')
    assert chunk.columns == ["text"]
    assert chunk.cells == [['"One", she said.'], [" a\ttab "], ["last"]]
    assert chunk.lines == [1, 3, 4]
    assert read(tmp_path, "x.txt", "a b\n", columns="sentence").columns == ["sentence"]


def test_txt_that_the_recipe_calls_so_is_cut_at_spaces(tmp_path: Path) -> None:
    """As TREC has it. Without the word it is refused: a file of plain sentences would lose its first words."""
    trec = "NUM:dist How far is it ?\nDESC:def  What is it ?\nHUM\n"
    chunk = read(tmp_path, "train.label", trec, format="txt", columns=LABEL_TEXT)
    assert chunk.cells == [["NUM:dist", "How far is it ?"], ["DESC:def", "What is it ?"], None]
    assert read(tmp_path, "x.txt", "1\ta b\tc\n0 d\te\n", format="txt", columns=LABEL_TEXT).cells == [
        ["1", "a b\tc"],
        ["0 d", "e"],
    ], "tabs where the first line has one"
    message = refusal(tmp_path, "x.txt", "a plain sentence\n", "no-tabs", columns=LABEL_TEXT)
    assert "`columns: text`" in message
    assert "`format: txt`" in message


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("x.jsonl", {"columns": LABEL_TEXT}),
        ("x.jsonl", {"quoting": "none"}),
        ("x.parquet", {"columns": LABEL_TEXT}),
        ("x.txt", {"quoting": "csv"}),
    ],
)
def test_what_a_format_has_no_use_for_is_refused(tmp_path: Path, name: str, layout: dict[str, Any]) -> None:
    message = refusal(tmp_path, name, '{"text": "a"}\n', "not-delimited", **layout)
    assert f"`{next(iter(layout))}` is not for {name[2:]} files" in message


# --- quotes ----------------------------------------------------------------------------------------------------

MRPC = 'Quality\t#1 String\t#2 String\n1\t"Open, he said\the said " so\n0\tplain\t"quoted"\n'


def test_quotes_are_letters_where_the_recipe_says_so(tmp_path: Path) -> None:
    rows = [["1", '"Open, he said', 'he said " so'], ["0", "plain", '"quoted"']]
    chunk = read(tmp_path, "x.tsv", MRPC, quoting="none")
    assert (chunk.columns, chunk.cells, chunk.lines) == (["Quality", "#1 String", "#2 String"], rows, [2, 3])
    commas = 'say "a, "b",1\n"c",0\n'
    chunk = read(tmp_path, "x.csv", commas, quoting="none", columns=["text", "label"])
    assert chunk.cells == [None, ['"c"', "0"]], "a row is a line, and a comma separates it"
    message = refusal(tmp_path, "x.tsv", MRPC, "bad-csv")
    assert "x.tsv:2: not valid csv" in message
    assert "where quotes are plain letters, set `quoting: none`" in message


def test_a_quote_that_takes_in_its_neighbours_says_what_to_do(tmp_path: Path) -> None:
    advice = "where quotes are plain letters, set `quoting: none`"
    chunk = read(tmp_path, "x.tsv", 'a\tb\tc\n1\t"open\tclosed"\n4\t5\t6\n')
    assert chunk.cells == [None, ["4", "5", "6"]]
    assert chunk.faults == [f"2 cells where the header has 3; a quoted cell takes in its neighbours: {advice}"]
    chunk = read(tmp_path, "x.csv", "a,b,c\n1,2\n1,2,3,4\n")
    assert chunk.faults == ["2 cells where the header has 3", "4 cells where the header has 3"], "no quote to blame"


def test_a_quote_that_swallows_rows_is_seen_though_the_row_has_as_many_cells(tmp_path: Path) -> None:
    """Two quotes in the same column, k lines apart, have k (columns − 1) tabs between them."""
    swallowed = 'id\ttext\tlabel\n1\t"open\t0\n2\tlost\t1\n3\tclosed"\t1\n4\tlast\t0\n'
    chunk = read(tmp_path, "x.tsv", swallowed)
    assert chunk.cells == [None, ["4", "last", "0"]]
    assert chunk.lines == [2, 5]
    assert chunk.faults == ["a quoted cell takes in 3 lines: where quotes are plain letters, set `quoting: none`"]
    assert len(read(tmp_path, "x.tsv", swallowed, quoting="none").cells) == 4
    paragraphs = 'id\ttext\tlabel\n1\t"one\ntwo\tthree\nfour"\t0\n'
    assert read(tmp_path, "x.tsv", paragraphs).cells == [["1", "one\ntwo\tthree\nfour", "0"]], "a text of three lines"
