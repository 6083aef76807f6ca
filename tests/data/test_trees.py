"""Bracketed trees: phrases by hand, escapes, lines that are no tree, and the real files where they are."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manyheads.config.task import Source
from manyheads.data.chunk import Chunk
from manyheads.data.readers import read_chunks
from manyheads.data.trees import parse_tree, undo_escapes
from manyheads.errors import UserError
from manyheads.tasks.load import load_tasks
from manyheads.tasks.resolve import load_recipe

ToyRecipe = Callable[..., dict[str, Any]]
TREE = "(3 (2 It) (4 (3 really) (4 shines)))\n"


def read(folder: Path, content: str | bytes, name: str = "x.txt", **layout: Any) -> Chunk:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (chunk,) = read_chunks(Source(file=name, **{"format": "trees", **layout}), folder, "train")
    return chunk


def test_a_tree_is_a_sentence_or_all_its_phrases(tmp_path: Path) -> None:
    sentences = read(tmp_path, f"{TREE}\n(1 dull)\n")
    assert sentences.columns == ["text", "label"]
    assert sentences.cells == [["It really shines", "3"], ["dull", "1"]]
    assert sentences.lines == [1, 3]
    phrases = read(tmp_path, gzip.compress(f"{TREE}\n(1 dull)\n".encode()), "x.txt.gz", phrases=True)
    assert phrases.cells == [
        ["It really shines", "3"],
        ["It", "2"],
        ["really shines", "4"],
        ["really", "3"],
        ["shines", "4"],
        ["dull", "1"],
    ], "the sentence first, then from left to right"
    assert phrases.lines == [1, 1, 1, 1, 1, 3]
    assert read(tmp_path, TREE, "x.trees", format=None).cells == [["It really shines", "3"]], "by the ending"


def test_nodes_are_spans_of_the_words() -> None:
    words, nodes = parse_tree(" ( 0(1 a  b)(2 (3 c)) ) ")
    assert words == ["a", "b", "c"]
    assert nodes == [("0", 0, 3), ("1", 0, 2), ("2", 2, 3), ("3", 2, 3)]
    deep = 5000
    assert len(parse_tree("(1 " * deep + "x" + ")" * deep)[1]) == deep


def test_escapes_are_undone_unless_they_are_kept(tmp_path: Path) -> None:
    tree = "(2 (2 -LRB-) (2 (3 co-writer\\/director) (2 (2 \\*) (2 -rrb-))))\n"
    assert read(tmp_path, tree).cells == [["( co-writer/director * )", "2"]]
    assert read(tmp_path, tree, escapes="keep").cells == [["-LRB- co-writer\\/director \\* -rrb-", "2"]]
    assert undo_escapes("-LSB- a -RSB- -LCB- b -RCB- `` c '' well-done \\d") == "[ a ] { b } `` c '' well-done \\d"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("(3 (2 It) (4 shines)", "closing brackets are missing: 1"),
        ("(3 (2 It) (4 shines)))", "')' outside of a tree"),
        ("(3 a) (2 b)", "'(' outside of a tree"),
        ("It shines", "'It' outside of a tree"),
        ("((2 It))", "'(' where a node's label is expected"),
        ("(3 (2 It) ())", "')' where a node's label is expected"),
        ("(3", "closing brackets are missing: 1"),
        ("(3)", "no words in a node with label '3'"),
        ("(3 It (4 shines))", "a node after 'It', whose node holds words"),
        ("(3 (2 It) shines)", "'shines' beside a node"),
    ],
)
def test_a_line_that_is_no_tree_is_a_bad_row(tmp_path: Path, line: str, fault: str) -> None:
    chunk = read(tmp_path, f"{TREE}{line}\n{TREE}")
    assert [row is None for row in chunk.cells] == [False, True, False]
    assert chunk.lines == [1, 2, 3]
    assert chunk.faults[0].startswith(fault)


def test_bad_trees_are_told_by_file_and_line(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    (toy_data / "trees.txt").write_text(f"{TREE}(3 (2 open)\n{TREE}")
    tasks: dict[str, Any] = {"mood": {"train": ["mood.csv", {"file": "trees.txt", "format": "trees", "phrases": True}]}}
    with pytest.raises(UserError, match=r"1 bad row.*\n  trees.txt:2: closing brackets are missing: 1") as caught:
        load_tasks(load_recipe(toy_recipe(tasks=tasks)))
    assert caught.value.code == "bad-rows"
    tasks["mood"]["bad_rows"] = "skip"
    assert (
        "mood: 1 bad row of train skipped (bad_rows: skip)"
        in load_tasks(load_recipe(toy_recipe(tasks=tasks)))["mood"].notes
    )


@pytest.mark.parametrize(
    ("layout", "code"),
    [
        ({"columns": ["text"]}, "bad-tree-columns"),
        ({"quoting": "none"}, "not-delimited"),
        ({"format": "txt", "phrases": True}, "not-trees"),
        ({"format": "tsv", "escapes": "keep"}, "not-trees"),
    ],
)
def test_keys_that_do_not_fit_are_refused(tmp_path: Path, layout: dict[str, Any], code: str) -> None:
    with pytest.raises(UserError) as caught:
        read(tmp_path, TREE, **layout)
    assert caught.value.code == code
    assert str(caught.value).startswith(str(tmp_path / "x.txt"))


def test_trees_have_the_tasks_columns_in_every_split(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    lines = [f"({number % 4} (1 word{number}) (0 here))\n" for number in range(8)]
    (toy_data / "trees.txt").write_text("".join(lines))
    trees = {"file": "trees.txt", "format": "trees"}
    tasks = {"mood": {"train": ["mood.csv", trees], "dev": trees, "test": trees}}
    data = load_tasks(load_recipe(toy_recipe(tasks=tasks)))["mood"]
    assert len(data.train) == 48
    assert data.dev.texts[0].to_pylist()[:2] == ["word0 here", "word1 here"]
    assert data.test is not None
    assert data.test.labels is not None, "whose labels are read"
    assert data.test.labels.tolist() == [0, 1, 2, 3] * 2
    alone = {"mood": {"format": "trees", "train": "trees.txt", "dev": "trees.txt"}}
    assert len(load_tasks(load_recipe(toy_recipe(tasks=alone)))["mood"].train) == 8
