"""Rows of a split, checked: which columns, which rows are bad and how that is said; and the real files as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyheads.config.task import Source
from manyheads.data.dataset import Dataset, label_rows, read_rows
from manyheads.data.labels import LabelReader
from manyheads.data.table import Columns
from manyheads.errors import UserError

ZERO_TO_TWO = LabelReader("classification", ("0", "1", "2"), {"0": 0, "1": 1, "2": 2})
TEXT = Columns(("text",), "label", None)


def read(
    folder: Path,
    *files: str,
    columns: Columns = TEXT,
    reader: LabelReader | None = ZERO_TO_TWO,
    skip: bool | None = False,
) -> Dataset:
    raw = read_rows([Source(file=file) for file in files], folder, "train", columns, "recipe: tasks.a.train")
    return label_rows(raw, reader, skip, "recipe.yaml:3: tasks.t.train")


def refusal(*arguments: Any, code: str = "bad-rows", **settings: Any) -> list[str]:
    with pytest.raises(UserError) as caught:
        read(*arguments, **settings)
    assert caught.value.code == code
    return str(caught.value).split("\n")


# --- columns ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            Columns(("txet",), "label", None),
            "x.csv: no column 'txet'. Did you mean 'text'? Known: label, text.",
        ),
        (
            Columns(("text",), "lable", None),
            "x.csv: no column 'lable'. Did you mean 'label'? Known: label, text.",
        ),
        (Columns(("text",), "label", "key"), "x.csv: no column 'key'. Known: label, text."),
    ],
)
def test_a_missing_column_is_named_with_the_nearest(tmp_path: Path, columns: Columns, expected: str) -> None:
    (tmp_path / "x.csv").write_text(",text,label\n0,a,1\n")
    assert refusal(tmp_path, "x.csv", columns=columns, code="unknown-column") == [f"recipe: tasks.a.train: {expected}"]


# --- good rows -------------------------------------------------------------------------------------------------


def test_texts_are_stripped_and_labels_read(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('label,text,id\n2.0,"  two  words ",k1\n 0 ,"""quoted""",k2 \n')
    found = read(tmp_path, "x.csv")
    assert found.texts[0].to_pylist() == ["two  words", '"quoted"']
    assert found.ids.to_pylist() == ["k1", "k2"]
    assert found.labels is not None
    assert (found.labels.tolist(), found.labels.dtype) == ([2, 0], np.int64)
    assert (len(found), found.skipped, found.lines.tolist()) == (2, 0, [2, 3])


def test_pairs_keep_their_sides_and_numbers_their_fractions(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("b\ta\tscore\nB1\tA1\t4.25\nB2\tA2\t1\n")
    columns = Columns(("a", "b"), "score", None)
    found = read(tmp_path, "x.tsv", columns=columns, reader=LabelReader("regression", range=(0, 5)))
    assert [side.to_pylist() for side in found.texts] == [["A1", "A2"], ["B1", "B2"]]
    assert found.labels is not None
    assert (found.labels.tolist(), found.labels.dtype) == ([4.25, 1.0], np.float64)


def test_labels_are_not_read_where_none_are_wanted(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,label\na,nonsense\nb,\n")
    found = read(tmp_path, "x.csv", columns=Columns(("text",), None, None), reader=None)
    assert (found.labels, len(found)) == (None, 2)


def test_ids_are_a_named_column_or_id_or_the_rows_number(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,key,text,label\n7,x,a,0\n8,y,b,1\n")
    (tmp_path / "y.csv").write_text("text,label\na,0\n,1\nb,1\nc,9\nd,2\n")
    assert read(tmp_path, "x.csv").ids.to_pylist() == ["7", "8"]
    assert read(tmp_path, "x.csv", columns=Columns(("text",), "label", "key")).ids.to_pylist() == ["x", "y"]
    # rows that are left out still count: an id leads back to its row in the file
    assert read(tmp_path, "y.csv", skip=True).ids.to_pylist() == ["0", "2", "4"]


def test_several_files_make_one_split(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,label\na,0\nb,1\n")
    (tmp_path / "y.jsonl").write_text('{"label": 2, "text": "c", "other": 1}\n')
    (tmp_path / "z.tsv").write_text("label\ttext\n")
    found = read(tmp_path, "x.csv", "y.jsonl", "z.tsv")
    assert found.texts[0].to_pylist() == ["a", "b", "c"]
    assert found.labels is not None
    assert found.labels.tolist() == [0, 1, 2]
    assert found.ids.to_pylist() == ["0", "1", "2"]
    assert [found.location(row) for row in range(3)] == ["x.csv:2", "x.csv:3", "y.jsonl:1"]


def test_taking_rows_keeps_everything_of_them(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,text,label\nk0,a,0\nk1,b,1\nk2,c,2\n")
    found = read(tmp_path, "x.csv").take(np.array([2, 0]))
    assert (found.texts[0].to_pylist(), found.ids.to_pylist()) == (["c", "a"], ["k2", "k0"])
    assert found.labels is not None
    assert (found.labels.tolist(), found.location(0)) == ([2, 0], "x.csv:4")


# --- bad rows --------------------------------------------------------------------------------------------------


BAD = "text,label\na,0\n  ,1\nb\nc,\nd,7\ne,2\nf,g,1\n"


def test_bad_rows_are_listed_in_the_order_of_the_file_with_reason_and_count(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(BAD)
    assert refusal(tmp_path, "x.csv") == [
        "recipe.yaml:3: tasks.t.train: 5 bad rows of 7:",
        "  x.csv:3: empty text in column 'text'",
        "  x.csv:4: 1 cells where the header has 2",
        "  x.csv:5: no label",
        "  x.csv:6: label '7' is not one of 0, 1, 2",
        "  x.csv:8: 3 cells where the header has 2",
        "Mend the file, or set `bad_rows: skip` (for the task, or under `data`) to leave them out.",
    ]


def test_advice_to_skip_is_not_given_where_there_is_no_recipe(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('text\na\n" "\nb\n')
    lines = refusal(tmp_path, "x.csv", columns=Columns(("text",), None, None), reader=None, skip=None)
    assert lines[0].endswith("1 bad row of 3:")
    assert lines[-1] == "Mend the file."


def test_bad_rows_are_skipped_and_counted_if_asked_for(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(BAD)
    found = read(tmp_path, "x.csv", skip=True)
    assert (found.texts[0].to_pylist(), found.skipped) == (["a", "e"], 5)
    assert found.labels is not None
    assert (found.labels.tolist(), found.lines.tolist()) == ([0, 2], [2, 7])


def test_twenty_bad_rows_are_shown_and_the_others_counted(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,label\n" + "a,9\n" * 24 + "b,1\n")
    (tmp_path / "y.csv").write_text("text,label\n,1\n")
    first, *shown, more, _ = refusal(tmp_path, "x.csv", "y.csv")
    assert first == "recipe.yaml:3: tasks.t.train: 25 bad rows of 26:"
    assert [line.split(": ")[0] for line in shown] == [f"  x.csv:{line}" for line in range(2, 22)]
    assert more == "  … and 5 more"


def test_advice_that_all_bad_rows_share_is_given_once(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,label\na,0\nb,1\nc,0|1\nd,1|2\n")
    assert refusal(tmp_path, "x.csv") == [
        "recipe.yaml:3: tasks.t.train: 2 bad rows of 4:",
        "  x.csv:4: label '0|1' is several classes with '|' between them",
        "  x.csv:5: label '1|2' is several classes with '|' between them",
        "Where a row may have several classes, set `kind: multi-label`.",
        "Mend the file, or set `bad_rows: skip` (for the task, or under `data`) to leave them out.",
    ]


def test_either_text_of_a_pair_may_be_the_empty_one(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(
        '{"a": "x", "b": null, "l": 1}\n{"a": NaN, "b": "y", "l": 1}\n{"a": "x", "l": 1}\n'
    )
    assert refusal(tmp_path, "x.jsonl", columns=Columns(("a", "b"), "l", None))[1:4] == [
        "  x.jsonl:1: empty text in column 'b'",
        "  x.jsonl:2: empty text in column 'a'",
        "  x.jsonl:3: empty text in column 'b'",
    ]


def test_cells_that_are_no_text_are_bad(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(
        '{"text": {"a": 1}, "label": 1}\n{"text": "a", "label": [1]}\n{"text": 5, "label": 1}\n'
        '{"text": ["a", 1], "label": 1}\n{"text": ["a", "b c"], "label": 1}\n'
    )
    assert refusal(tmp_path, "x.jsonl")[1:-1] == [
        "  x.jsonl:1: dict instead of text in column 'text'",
        "  x.jsonl:2: a list of labels in a classification task",
        "  x.jsonl:4: a list that is not of words in column 'text': word 2 is 1, not a text",
    ]
    assert read(tmp_path, "x.jsonl", skip=True).texts[0].to_pylist() == ["5", "a b\u00a0c"]
    pq.write_table(pa.table({"text": [b"raw"], "label": [1]}), tmp_path / "x.parquet")
    assert refusal(tmp_path, "x.parquet")[1] == "  x.parquet:1: bytes instead of text in column 'text'"


@pytest.mark.parametrize("content", ["text,label\n", "text,label\nx,9\n"])
def test_no_row_left_is_an_error_even_when_skipping(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.csv").write_text(content)
    lines = refusal(tmp_path, "x.csv", skip=True, code="no-rows")
    assert lines == ["recipe.yaml:3: tasks.t.train: no usable row in x.csv."]


# --- the course's files, as they are ---------------------------------------------------------------------------

SENTENCE, PAIR = ("sentence",), ("sentence1", "sentence2")
FIVE = LabelReader("classification", tuple("01234"), {name: int(name) for name in "01234"})
TWO = LabelReader("classification", ("0", "1"), {"0": 0, "1": 1})
SCORE = LabelReader("regression", range=(0, 5))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "text", "label", "reader", "rows"),
    [
        ("ids-sst-train.csv", SENTENCE, "sentiment", FIVE, 8544),
        ("ids-sst-dev.csv", SENTENCE, "sentiment", FIVE, 1101),
        ("ids-sst-test-student.csv", SENTENCE, None, None, 2210),
        ("sts-train.csv", PAIR, "similarity", SCORE, 6040),
        ("sts-dev.csv", PAIR, "similarity", SCORE, 863),
        ("sts-test-student.csv", PAIR, None, None, 1725),
        ("quora-train.csv", PAIR, "is_duplicate", TWO, 61991),
        ("ids-cfimdb-train.csv", SENTENCE, "sentiment", TWO, 1707),
        ("ids-cfimdb-dev.csv", SENTENCE, "sentiment", TWO, 245),
        ("ids-cfimdb-test-student.csv", SENTENCE, None, None, 488),
    ],
)
def test_real_files_are_read_whole(
    shared_data: Path, file: str, text: tuple[str, ...], label: str | None, reader: LabelReader | None, rows: int
) -> None:
    found = read(shared_data, file, columns=Columns(text, label, None), reader=reader)
    assert len(found) == rows
    assert (found.labels is None) == (reader is None)
    ids = found.ids.to_pylist()
    assert {len(one) for one in ids} == {25}, "the ids of the file, in spite of a shifted header"
    for column in found.texts:
        assert all(one == one.strip() != "" for one in column.to_pylist())


@pytest.mark.slow
def test_the_two_unlabelled_rows_of_quora_dev_are_named_or_skipped(shared_data: Path) -> None:
    columns = Columns(PAIR, "is_duplicate", None)
    assert refusal(shared_data, "quora-dev.csv", columns=columns, reader=TWO)[:-1] == [
        "recipe.yaml:3: tasks.t.train: 2 bad rows of 20214:",
        "  quora-dev.csv:2577: no label",
        "  quora-dev.csv:14222: empty text in column 'sentence2'",
    ]
    found = read(shared_data, "quora-dev.csv", columns=columns, reader=TWO, skip=True)
    assert (len(found), found.skipped) == (20212, 2)
    text = found.texts[0][1].as_py()  # csv quoting is undone once; the quotes doubled before that stay
    assert text.startswith('"')
    assert text.count('""') == 2
