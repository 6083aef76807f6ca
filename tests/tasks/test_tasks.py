"""From a recipe to checked tasks: what is filled in, held out, left out, refused; and a task written as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyheads.config.part import PartConfig
from manyheads.config.task import PredictionFile, Source
from manyheads.data.labels import LabelReader
from manyheads.data.table import Columns
from manyheads.errors import UserError
from manyheads.tasks.load import TaskData, load_tasks, read_unlabelled
from manyheads.tasks.resolve import load_recipe
from manyheads.tasks.task import Task


def load(folder: Path, data: dict[str, Any] | None = None, **task: Any) -> TaskData:
    """A task of which dev chooses checkpoints."""
    content = {"data": {"root": str(folder), **(data or {})}, "tasks": {"t": task}, "evaluate": {"select": None}}
    return load_tasks(load_recipe(content))["t"]


def refusal(folder: Path, **task: Any) -> str:
    with pytest.raises(UserError) as caught:
        load(folder, **task)
    return str(caught.value)


def rows(count: int, first: int = 0) -> str:
    return "text,label\n" + "".join(f"text {i},{i % 3}\n" for i in range(first, first + count))


# --- how files are read ----------------------------------------------------------------------------------------


def test_a_task_says_how_all_its_files_are_read_and_a_source_for_itself(tmp_path: Path) -> None:
    """MRPC's and CoLA's ways: no header, bare quotes, an ending that says nothing; test has a header after all."""
    (tmp_path / "train.dat").write_text('1\t"Good\n0\tbad\n1\tfine"\n')
    (tmp_path / "dev.dat").write_text("0\tdull\n")
    (tmp_path / "test.csv").write_text("label,text\n0,worse\n")
    layout = {"columns": ["label", "text"], "format": "tsv", "quoting": "none"}
    data = load(tmp_path, train="train.dat", dev="dev.dat", **layout)
    assert data.task.columns == Columns(("text",), "label", None), "recognised among the given names"
    assert data.train.texts[0].to_pylist() == ['"Good', "bad", 'fine"']
    assert data.dev.texts[0].to_pylist() == ["dull"]
    (tmp_path / "test.csv").write_text('0,"worse"\n')
    own = {"file": "test.csv", "format": "csv", "quoting": "csv"}
    data = load(tmp_path, train="train.dat", dev="dev.dat", test=own, **layout)
    assert data.test is not None
    assert data.test.texts[0].to_pylist() == ["worse"]


def test_lines_of_a_txt_file_are_the_texts_of_test_whatever_the_column_is_called(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("sentence,label\na,0\nb,1\nc,1\n")
    (tmp_path / "lines.txt").write_text("One line.\n\nAnother, longer line.\n")
    data = load(tmp_path, train="x.csv", test="lines.txt")
    assert data.test is not None
    assert (data.test.labels, data.test.texts[0].to_pylist()) == (None, ["One line.", "Another, longer line."])
    (tmp_path / "pairs.csv").write_text("sentence1,sentence2,label\na,b,0\nc,d,1\ne,f,1\n")
    (tmp_path / "lines.txt").write_text('"One\ttwo"\nthree\tfour\n')
    data = load(tmp_path, train="pairs.csv", test="lines.txt")
    assert data.test is not None
    assert [side.to_pylist() for side in data.test.texts] == [['"One', "three"], ['two"', "four"]]
    (tmp_path / "lines.txt").write_text("a line without a tab\n")
    assert "lines.txt:1: 1 cells where there are 2 columns" in refusal(tmp_path, train="pairs.csv", test="lines.txt")


def test_tasks_that_read_a_file_differently_do_not_share_its_rows(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("text\ta\tb\n" + "".join(f'"t{i}"\t{i % 2}\t{i % 3}\n' for i in range(9)))
    tasks: dict[str, Any] = {"a": {"train": "x.tsv", "label": "a"}, "b": {"train": "x.tsv", "label": "b"}}
    root = {"root": str(tmp_path)}
    assert load_tasks(load_recipe({"data": root, "tasks": tasks}))["b"].row_group == "a+b"
    tasks["b"]["quoting"] = "none"
    loaded = load_tasks(load_recipe({"data": root, "tasks": tasks}))
    assert loaded["b"].row_group is None
    assert loaded["b"].train.texts[0][0].as_py().startswith('"t')


# --- what is filled in -----------------------------------------------------------------------------------------


def test_a_pair_of_graded_sentences_becomes_a_cross_encoded_regression(toy_data: Path) -> None:
    data = load(toy_data, train="near.tsv")
    assert (data.task.kind.name, data.task.pair) == ("regression", True)
    assert (data.task.encoding.name, data.task.loss.name) == ("cross", "mse")
    assert data.task.columns == Columns(("sentence1", "sentence2"), "score", None)
    assert data.train.labels is not None
    assert data.task.offset == pytest.approx(data.train.labels.mean())
    assert data.task.unit == pytest.approx(data.train.labels.std())


def test_two_classes_get_the_binary_loss_and_no_offset(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,label\na,no\nb,yes\nc,no\n")
    task = load(tmp_path, train="x.csv").task
    assert (task.labels.names, task.loss.name, task.offset) == (("no", "yes"), "binary-cross-entropy", 0.0)


def test_declared_parts_and_columns_win(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,body,label,stars\na,A,0,5\nb,B,1,4\nc,C,0,3\n")
    settings = {"text": "body", "label": "stars", "labels": [3, 4, 5], "loss": "cross-entropy", "id": "text"}
    data = load(tmp_path, train="x.csv", dev="x.csv", **settings)
    assert data.train.texts[0].to_pylist() == ["A", "B", "C"]
    assert data.train.ids.to_pylist() == ["a", "b", "c"]
    assert data.train.labels is not None
    assert (data.train.labels.tolist(), data.task.loss.name) == ([2, 1, 0], "cross-entropy")


def test_dev_uses_the_classes_of_train(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(rows(6))
    (tmp_path / "y.csv").write_text("text,label\na,2\nb,3\n")
    assert "y.csv:3: label '3' is not one of 0, 1, 2" in refusal(tmp_path, train="x.csv", dev="y.csv")
    data = load(tmp_path, {"bad_rows": "skip"}, train="x.csv", dev="y.csv")
    assert data.dev.labels is not None
    assert data.dev.labels.tolist() == [2]
    assert data.notes == ["t: 1 bad row of dev skipped (bad_rows: skip)"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"encoding": "cross"}, "tasks.t.encoding: 'cross' takes two text columns, this task has one; use 'single'."),
        ({"loss": "mse"}, "tasks.t.loss: 'mse' needs numbers, this task is a classification."),
        ({"labels": {0: "a", 1: "a", 2: "a"}}, "tasks.t: a classification needs at least two classes, found ['a']."),
        ({"text": "txt", "label": "label"}, "x.csv: no column 'txt'. Did you mean 'text'?"),
        ({"id": "key"}, "x.csv: no column 'key'."),
    ],
)
def test_what_does_not_fit_is_refused_with_its_key(tmp_path: Path, settings: dict[str, Any], expected: str) -> None:
    (tmp_path / "x.csv").write_text(rows(6))
    assert expected in refusal(tmp_path, train="x.csv", **settings)


def test_bad_rows_are_told_before_the_lack_of_classes_that_follows_from_them(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,label\n,0\n,1\n")
    assert "2 bad rows of 2:\n  x.csv:2: empty text" in refusal(tmp_path, train="x.csv")
    (tmp_path / "x.csv").write_text("text,label\n")
    assert "no usable row in x.csv" in refusal(tmp_path, train="x.csv")


# --- held-out dev ----------------------------------------------------------------------------------------------


def test_a_share_of_train_is_held_out_where_there_is_no_dev(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(rows(20))
    data = load(tmp_path, {"dev_share": 0.25}, train="x.csv")
    train, dev = data.train.lines.tolist(), data.dev.lines.tolist()
    assert (len(train), len(dev)) == (15, 5)
    assert sorted(train + dev) == list(range(2, 22))
    assert (train, dev) == (sorted(train), sorted(dev))
    assert dev != list(range(2, 7)), "a random share, not the head of the file"
    assert data.notes == ["t: no dev data; 5 rows of train are held out as dev"]


def test_what_is_held_out_does_not_depend_on_the_seed(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(rows(200))

    def held_out(seed: int, name: str = "t") -> list[int]:
        recipe = load_recipe({"data": {"root": str(tmp_path)}, "tasks": {name: {"train": "x.csv"}}, "seed": seed})
        return load_tasks(recipe)[name].dev.lines.tolist()

    assert held_out(0) == held_out(1), "seeds are compared on the same examples"
    assert held_out(0) != held_out(0, "u")


def test_at_least_one_row_stays_on_either_side(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,label\na,0\nb,1\n")
    for share in (0.01, 0.99):
        data = load(tmp_path, {"dev_share": share}, train="x.csv", labels=[0, 1])
        assert (len(data.train), len(data.dev)) == (1, 1)
    (tmp_path / "x.csv").write_text("text,label\na,0\n")
    assert "one row is too few to hold out a dev set; name `dev`" in refusal(tmp_path, train="x.csv", labels=[0, 1])


# --- files -----------------------------------------------------------------------------------------------------


def test_all_missing_files_of_all_tasks_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(rows(6))
    (tmp_path / "folder.csv").mkdir()
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "tasks:\n  a:\n    train:\n      - x.csv\n      - no1.csv\n    dev: no2.csv\n"
        "  b:\n    train: folder.csv\n    dev: x.csv\n    test: {file: no3.csv, optional: true}\n"
    )
    with pytest.raises(UserError) as caught:
        load_tasks(load_recipe(recipe))
    assert str(caught.value).split("\n") == [
        f"r.yaml:5: tasks.a.train: no file 'no1.csv' in {tmp_path}.",
        f"r.yaml:6: tasks.a.dev: no file 'no2.csv' in {tmp_path}.",
        f"r.yaml:8: tasks.b.train: no file 'folder.csv' in {tmp_path}.",
        "File names are relative to the recipe's folder, or to data.root.",
    ]


def test_optional_files_that_are_missing_are_left_out_and_told(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(rows(6))
    nowhere = {"file": "nowhere.csv", "optional": True}
    data = load(tmp_path, train=[nowhere, "x.csv"], dev=["x.csv", nowhere], test=nowhere)
    assert (len(data.train), len(data.dev), data.test) == (6, 6, None)
    assert data.notes == [
        f"t: optional {split} file 'nowhere.csv' is not there and left out" for split in ("train", "dev", "test")
    ]
    assert "tasks.t.train: none of its optional files is there" in refusal(tmp_path, train=nowhere)


def test_test_files_are_read_without_labels(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(rows(6))
    (tmp_path / "y.csv").write_text("id,text,label\nk,a,nonsense\nl,b,\n")
    (tmp_path / "z.csv").write_text("text\nc\n,\n")
    test = load(tmp_path, train="x.csv", dev="x.csv", test="y.csv").test
    assert test is not None
    assert (test.ids.to_pylist(), test.labels) == (["k", "l"], None)
    assert "tasks.t.test: 1 bad row of 2" in refusal(tmp_path, train="x.csv", dev="x.csv", test="z.csv")
    data = load(tmp_path, train="x.csv", dev="x.csv", test="z.csv", bad_rows="skip")
    assert data.test is not None
    assert (len(data.test), data.notes) == (1, ["t: 1 bad row of test skipped (bad_rows: skip)"])


def test_a_task_says_for_itself_whether_bad_rows_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(rows(6) + ",1\n,1\n")
    data = load(tmp_path, {"bad_rows": "error"}, train="x.csv", dev="x.csv", bad_rows="skip")
    assert (len(data.train), len(data.dev)) == (6, 6)
    assert data.notes == [f"t: 2 bad rows of {split} skipped (bad_rows: skip)" for split in ("train", "dev")]
    with pytest.raises(UserError, match="2 bad rows of 8"):
        load(tmp_path, {"bad_rows": "skip"}, train="x.csv", dev="x.csv", bad_rows="error")


def test_texts_to_predict_need_only_the_tasks_text_columns(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(rows(6))
    (tmp_path / "new.jsonl").write_text('{"text": " a "}\n{"text": "b"}\n')
    task = load(tmp_path, train="x.csv").task
    found = read_unlabelled(task, [Source(file="new.jsonl")], tmp_path, "test", "new.jsonl")
    assert (found.texts[0].to_pylist(), found.ids.to_pylist(), found.labels) == (["a", "b"], ["0", "1"], None)


# --- the real data ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_papers_recipe_reads_the_course_files(shared_data: Path) -> None:
    recipe = load_recipe("best", {"data.root": str(shared_data), "evaluate.select": None})
    data = load_tasks(recipe)
    sizes = {name: (len(one.train), len(one.dev), one.test and len(one.test)) for name, one in data.items()}
    assert sizes == {"sst": (8544, 1101, 2210), "qqp": (61991, 20212, None), "sts": (6040, 863, 1725)}
    assert {name: one.task.loss.name for name, one in data.items()} == {
        "sst": "cross-entropy",
        "qqp": "binary-cross-entropy",
        "sts": "mse",
    }
    assert data["qqp"].notes == [
        "qqp: optional test file 'quora-test-student.csv' is not there and left out",
        "qqp: 2 bad rows of dev skipped (bad_rows: skip)",
    ]
    assert data["sst"].notes == data["sts"].notes == []
    assert data["qqp"].train.labels is not None
    assert np.mean(data["qqp"].train.labels) == pytest.approx(0.36, abs=0.01)


# --- JSON ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        LabelReader("classification", ("no", "yes"), {"0": 0, "1": 1, "2": 1}),
        LabelReader("regression", range=(0.0, 5.0)),
    ],
)
def test_a_task_survives_json(labels: LabelReader) -> None:
    task = Task(
        name="t",
        columns=Columns(("a", "b"), "label", None),
        labels=labels,
        encoding=PartConfig(name="cross", options={"segments": False}),
        pooling=PartConfig(name="head-pooler"),
        head=PartConfig(name="linear", options={"dropout": 0.3}),
        loss=PartConfig(name="mse"),
        offset=2.5,
        unit=1.4,
        predictions=PredictionFile(file="{split}.csv", column="P", format="course"),
    )
    assert Task.from_json(json.loads(json.dumps(task.to_json()))) == task
