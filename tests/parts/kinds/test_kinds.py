"""Every kind of task, declared with two columns and no code: from the file to predictions in the user's own words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import check_refused, manyheads
from manyheads import Run, UserError, load_recipe
from manyheads.tasks.load import TaskData, load_tasks

Files = Callable[..., Path]


def load(folder: Path, **task: Any) -> TaskData:
    content = {"data": {"root": str(folder)}, "tasks": {"t": task}, "evaluate": {"select": None}}
    return load_tasks(load_recipe(content))["t"]


def refusal(folder: Path, **task: Any) -> str:
    with pytest.raises(UserError) as caught:
        load(folder, **task)
    return str(caught.value)


def trained(recipe_file: Files, **task: Any) -> tuple[Run, str]:
    result = manyheads("train", recipe_file(tasks={"t": task}), "training.epochs=1", "--overwrite")
    assert result.returncode == 0, result.stderr
    return Run(Path(load_recipe(recipe_file(tasks={"t": task})).output) / "toy"), result.stderr


@pytest.mark.slow
def test_nli_is_a_pair_with_three_classes(recipe_file: Files, toy_data: Path) -> None:
    names = ["entailment", "neutral", "contradiction"]
    rows = [f"a dog runs {i},one cat sleeps,{names[i % 3]}" for i in range(24)]
    (toy_data / "nli.csv").write_text("premise,hypothesis,label\n" + "\n".join(rows) + "\n")
    run, said = trained(recipe_file, train="nli.csv")
    assert "classification, 3 classes: contradiction " in said
    task = run.model.tasks["t"]
    assert (task.encoding.name, task.loss.name, task.labels.names) == ("cross", "cross-entropy", tuple(sorted(names)))
    (prediction,) = run.predict("t", [("a dog", "a cat")])
    assert prediction["prediction"] in names
    assert sum(prediction["probabilities"].values()) == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
def test_a_single_regression_with_a_range(recipe_file: Files, toy_data: Path) -> None:
    rows = [f"the film was good {i},{i % 10 + 0.5}" for i in range(24)]
    (toy_data / "score.csv").write_text("text,score\n" + "\n".join(rows) + "\n")
    run, said = trained(recipe_file, train="score.csv", range=[0, 10], output="sigmoid")
    assert "regression from 0 to 10" in said
    (prediction,) = run.predict("t", ["the film was good"])
    assert 0 < prediction["prediction"] < 10
    assert list(run.metrics["dev"]["metrics"]["t"]) == ["pearson", "spearman", "mse", "mae", "within"]


# --- ordinal ---------------------------------------------------------------------------------------------------


def test_ordinal_classes_are_in_numeric_order_or_as_listed(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,label\n" + "".join(f"text {i},{(i % 3) * 5}\n" for i in range(12)))
    data = load(tmp_path, train="x.csv", kind="ordinal")
    assert (data.task.kind.name, data.task.labels.names) == ("ordinal", ("0", "5", "10"))
    assert [one.name for one in data.task.metrics][:3] == ["accuracy", "macro-f1", "kappa"]
    (tmp_path / "y.csv").write_text("text,label\na,low\nb,high\nc,mid\nd,low\n")
    assert "words have none; list them in 'labels'" in refusal(tmp_path, train="y.csv", kind="ordinal")
    listed = load(tmp_path, train="y.csv", kind="ordinal", labels=["low", "mid", "high"])
    assert listed.task.labels.names == ("low", "mid", "high")


# --- multi-label -----------------------------------------------------------------------------------------------


def test_multi_label_cells_lists_and_columns_are_read_alike(tmp_path: Path) -> None:
    """The same five rows as text cells, as lists in JSON, and as a column per class."""
    sets: list[list[str]] = [["tea"], ["tea", "film"], [], ["dog", "film"], ["dog"]]
    cells = "".join(f"text {i},{'|'.join(one) or '[]'}\n" for i, one in enumerate(sets))
    (tmp_path / "cells.csv").write_text("text,label\n" + cells)
    lines = "".join(json.dumps({"text": f"text {i}", "label": one}) + "\n" for i, one in enumerate(sets))
    (tmp_path / "lists.jsonl").write_text(lines)
    predictions = [",".join(str(int(name in one)) for name in ("dog", "film", "tea")) for one in sets]
    (tmp_path / "columns.csv").write_text(
        "text,dog,film,tea\n" + "".join(f"text {i},{one}\n" for i, one in enumerate(predictions))
    )
    expected = [[0, 0, 1], [0, 1, 1], [0, 0, 0], [1, 1, 0], [1, 0, 0]]
    for settings in (
        {"train": "cells.csv", "kind": "multi-label"},
        {"train": "lists.jsonl"},
        {"train": "columns.csv", "label": ["dog", "film", "tea"]},
    ):
        data = load(tmp_path, dev=settings["train"], **settings)
        assert (data.task.kind.name, data.task.labels.names) == ("multi-label", ("dog", "film", "tea"))
        assert data.train.labels is not None
        assert data.train.labels.tolist() == expected
        assert (data.task.counts, data.task.train_examples, data.task.loss.name) == (
            (2, 2, 2),
            5,
            "binary-cross-entropy",
        )


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        ("a,x|y\nb,\nc,x\n", {"kind": "multi-label"}, "x.csv:3: no label (write [] for a row with none"),
        ("a,x|y\nb,z\n", {"kind": "multi-label", "labels": ["x", "y"]}, "x.csv:3: label 'z' is not one of x, y"),
        ("a,x\nb,y\n", {"separator": "|"}, "'separator' belongs to multi-label tasks, this task is a classification"),
        ("a,x|y\nb,x\n", {"kind": "multi-label", "loss": "cross-entropy"}, "needs exactly one right class"),
    ],
)
def test_multi_label_faults(tmp_path: Path, content: str, settings: dict[str, Any], message: str) -> None:
    (tmp_path / "x.csv").write_text("text,label\n" + content)
    assert message in refusal(tmp_path, train="x.csv", dev="x.csv", **settings)


def test_a_column_per_class_must_say_yes_or_no(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,dog,tea\na,1,0\nb,2,0\nc,yes,no\n")
    found = refusal(tmp_path, train="x.csv", dev="x.csv", label=["dog", "tea"])
    assert "x.csv:3: expected 0 or 1 in column 'dog', found '2'" in found
    assert "several label columns make a multi-label task" in refusal(
        tmp_path, train="x.csv", label=["dog", "tea"], kind="classification"
    )


@pytest.mark.slow
def test_multi_label_from_training_to_predictions(recipe_file: Files, toy_data: Path) -> None:
    topics = ["dog", "tea", "film"]
    two = [(topics[i % 3], topics[(i + 1) % 3]) for i in range(30)]
    rows = [f"{i},one {one} and {other},{one};{other}" for i, (one, other) in enumerate(two)]
    (toy_data / "topics.csv").write_text("id,text,label\n" + "\n".join(rows) + "\n")
    loss = {"name": "binary-cross-entropy", "class_weights": "balanced"}
    run, said = trained(recipe_file, train="topics.csv", kind="multi-label", loss=loss)
    assert "multi-label, 3 classes: dog " in said
    (prediction,) = run.predict("t", ["one dog and tea"])
    assert set(prediction["probabilities"]) == set(topics)
    task = run.model.tasks["t"]
    assert task.thresholds == (), "toy recipes have version 0.1's defaults, which fit none"
    chances = prediction["probabilities"]
    assert prediction["prediction"] == [name for name, chance in chances.items() if chance >= 0.5]
    written = (run.folder / "predictions" / "t-dev.csv").read_text().splitlines()[1:]
    assert len(written) == 3
    assert all(set(line.split(",")[1].strip('"').split(";")) <= {*topics, "[]"} for line in written)
    again = load_tasks(load_recipe(run.folder / "recipe.yaml"))["t"]
    assert again.task == task, "the resolved recipe says the same"


# --- imbalance and scale ---------------------------------------------------------------------------------------


def test_imbalance_is_said_at_load_with_what_to_do(tmp_path: Path) -> None:
    rows = "".join(f"text {i},{'rare' if i == 7 else 'usual'}\n" for i in range(40))
    (tmp_path / "x.csv").write_text("text,label\n" + rows)
    data = load(tmp_path, train="x.csv", dev="x.csv")
    assert (data.task.counts, data.task.train_examples) == ((1, 39), 40)
    (note,) = data.notes
    assert "class 'rare' has 1 of 40 train rows, 'usual' has 39; `loss: {name: binary-cross-entropy, class_we" in note


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "seen"), [("raw", [0.0, 2.5, 5.0]), ("unit", [0.0, 0.5, 1.0])])
def test_predictions_are_in_label_units_on_every_scale(
    scale: str, seen: list[float], recipe_file: Files, toy_data: Path
) -> None:
    from manyheads.model.task_tokens import TaskTokens

    rows = "".join(f"a man plays {i}\ta man\t{[0, 2.5, 5][i % 3]}\n" for i in range(30))
    (toy_data / "s.tsv").write_text("sentence1\tsentence2\tscore\n" + rows)
    settings = {"train": "s.tsv", "dev": "s.tsv", "range": [0, 5], "scale": scale, "encoding": "bi-cosine"}
    data = load(toy_data, **settings)
    run, _ = trained(recipe_file, **settings)
    labels = TaskTokens(data.task, data.train, run.model.tokenizer, cached=False).labels
    assert labels is not None
    assert sorted(set(labels.tolist())) == seen
    predictions = [one["prediction"] for one in run.predict("t", [("a man plays", "a man"), ("a man", "a man")])]
    assert predictions[1] == pytest.approx(5, abs=1e-4), "equal sentences are as similar as can be"
    assert 0 <= predictions[0] <= 5
    assert np.isfinite(predictions).all()


@pytest.mark.slow
def test_geometric_overall_chooses_the_best_model(recipe_file: Files, toy_data: Path) -> None:
    result = manyheads("train", recipe_file(), "training.epochs=1", "evaluate.overall=geometric", "--json")
    dev = json.loads(result.stdout)["dev"]
    accuracy, r = dev["metrics"]["mood"]["accuracy"], dev["metrics"]["near"]["pearson"]
    assert dev["overall"] == pytest.approx((accuracy * max(r, 0)) ** 0.5)
    check_refused(manyheads("train", recipe_file(), "evaluate.weights.nera=2"), "no task 'nera'. Did you mean 'near'?")
    check_refused(manyheads("train", recipe_file(), "evaluate.weights={near: 0, mood: 0}"), "evaluate.weights")


@pytest.mark.slow
@pytest.mark.parametrize("parts", [{"output": "sigmoid"}, {"encoding": "bi-cosine"}, {}])
def test_equal_labels_train_without_a_fault(parts: dict[str, Any], recipe_file: Files, toy_data: Path) -> None:
    """0.1 forty-five times has a deviation of 1e-17, not 0."""
    rows = "".join(f"a {i}\tb\t0.1\n" for i in range(45))
    (toy_data / "same.tsv").write_text("sentence1\tsentence2\tscore\n" + rows)
    run, _ = trained(recipe_file, train="same.tsv", **parts)
    assert run.metrics["dev"]["metrics"]["t"]["pearson"] is None


def test_class_weights_take_the_numbers_that_labels_are(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,label\n" + "".join(f"text {i},{i % 2}\n" for i in range(8)))
    loss = {"name": "binary-cross-entropy", "class_weights": {0: 1, 1: 3}}
    assert load(tmp_path, train="x.csv", loss=loss).task.loss.options["class_weights"] == {"0": 1.0, "1": 3.0}


def test_missing_classes_and_labels_are_said_as_such(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,label\na,a\nb,b\nc,a\n")
    data = load(tmp_path, train="x.csv", dev="x.csv", labels=["a", "b", "c"])
    assert data.notes == ["t: no train row has class 'c'"]
    (tmp_path / "y.csv").write_text("text,label\na,\nb,\n")
    assert "tasks.t.label: no row of train has a label in column 'label'." in refusal(tmp_path, train="y.csv")


def test_classes_that_hold_the_separator_are_written_as_a_list(tmp_path: Path) -> None:

    rows = [{"text": "a", "label": ["tea, milk", "x|y"]}, {"text": "b", "label": ["tea, milk"]}]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = load(tmp_path, train="x.jsonl", dev="x.jsonl").task
    assert task.labels.names == ("tea, milk", "x|y")
    assert task.kind.as_text(["tea, milk", "x|y"], task) == '["tea, milk", "x|y"]'
