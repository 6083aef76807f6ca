"""`evaluate` on splits and labelled files, and `predict --all`, with a run of four tasks on the toy encoder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command import check_refused, manyheads
from manyheads import Predictor, Run, UserError, train
from manyheads.inference.intervals import metric_intervals

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, toy_encoder: Path) -> Run:
    """Two tasks on column 'text' of one file, one on column 'sentence', one on pairs; one has labelled test data, one
    skips bad rows."""
    folder = tmp_path_factory.mktemp("evaluate")
    words, colours = ["good", "dull", "great"], ["red", "blue"]
    rows = [f"the film was {words[i % 3]} {i},{'no' if i % 3 == 1 else 'yes'},{colours[i % 2]}" for i in range(30)]
    (folder / "films.csv").write_text("text,label,colour\n" + "\n".join(rows) + "\n")
    (folder / "films-test.csv").write_text(
        "text,label\na good film,yes\na dull film,no\na great film,\na red film,yes\n"
    )
    (folder / "stars.csv").write_text(
        "sentence,label\n" + "".join(f"a {words[i % 3]} book {i},{i % 3 + 1}\n" for i in range(30))
    )
    (folder / "near.csv").write_text(
        "sentence1,sentence2,score\n" + "".join(f"a dog {i},a cat,{i % 6}.5\n" for i in range(30))
    )
    accuracy = {"metrics": ["accuracy"]}
    tasks = {
        "mood": {"train": "films.csv", "test": "films-test.csv", "text": "text", "label": "label", **accuracy},
        "colour": {"train": "films.csv", "text": "text", "label": "colour", "bad_rows": "skip", **accuracy},
        "stars": {"train": "stars.csv", "kind": "ordinal", **accuracy},
        "near": {"train": "near.csv", "metrics": ["pearson", "mae"]},
    }
    recipe = {
        "name": "four",
        "encoder": toy_encoder,
        "data": {"root": folder},
        "tasks": tasks,
        "training": {"max_steps": 2, "batch_size": 4},
        "output": folder,
    }
    return train(recipe, quiet=True)


def write(folder: Path, text: str, name: str = "new.csv") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_a_test_split_is_measured_and_tasks_without_one_are_named(run: Run) -> None:
    result = manyheads("evaluate", run.folder, "--split", "test", "--json", "-q")
    assert result.returncode == 0, result.stderr
    scores = json.loads(result.stdout)["test"]
    assert scores["metrics"] == run.metrics["test"]["metrics"]
    assert scores["examples"] == {"mood": 3}
    assert scores["left_out"] == {"mood": {"no label": 1}}
    assert set(scores["unmeasured"]) == {"colour", "stars", "near"}
    assert scores["overall"] is None
    assert "left out: mood: 1 row: no label" in result.stderr
    assert "left out: colour, stars, near: the recipe names no test data" in result.stderr
    train_split = run.evaluate(split="train", task="stars")
    assert train_split.examples == {"stars": 27}


def test_dev_is_measured_unless_told_with_an_interval_for_each_metric(run: Run) -> None:
    scores = run.evaluate()
    assert scores.to_json().items() >= run.metrics["dev"].items()
    table = manyheads("evaluate", run.folder, "-q").stdout.splitlines()
    assert table[0].split() == ["task", "metric", "dev", "95", "%", "interval", "rows"]
    assert table[-1].split() == ["overall", f"{scores.overall:.3f}"]
    low, high = scores.intervals["near"]["mae"] or (0.0, 0.0)
    assert low <= (scores.metrics["near"]["mae"] or -1) <= high
    assert any(f"{low:.3f} to {high:.3f}" in line and line.startswith("near") for line in table)


def test_a_file_is_measured_for_every_task_whose_columns_it_has(run: Run, tmp_path: Path) -> None:
    """Against predictions for the same texts, counted by hand."""
    texts, moods, colours = ["a good film", "a dull book", "red tea", "the dog"], "yes no yes no", "red blue red red"
    rows = zip(texts, moods.split(), colours.split(), strict=True)
    file = write(tmp_path, "text,label,colour\n" + "".join(f"{','.join(row)}\n" for row in rows) + "a cat,,blue\n")
    result = manyheads("evaluate", run.folder, file, "--json", "-q")
    assert result.returncode == 0, result.stderr
    scores = json.loads(result.stdout)["files"]
    assert scores["examples"] == {"mood": 4, "colour": 5}
    assert scores["left_out"] == {"mood": {"no label": 1}, "colour": {}}
    right = [
        described["prediction"] == label
        for described, label in zip(run.predict("mood", texts), moods.split(), strict=True)
    ]
    assert scores["metrics"]["mood"]["accuracy"] == sum(right) / 4
    labels = np.array([["no", "yes"].index(label) for label in moods.split()])
    described = run.predict("mood", texts)
    chances = np.array([[one["probabilities"]["no"], one["probabilities"]["yes"]] for one in described])
    expected = metric_intervals(run.task("mood"), {"accuracy": sum(right) / 4}, chances, labels)["accuracy"]
    assert scores["intervals"]["mood"]["accuracy"] == pytest.approx(expected)
    assert "left out: stars: no file has the columns sentence, label" in result.stderr
    from_model = json.loads(manyheads("evaluate", run.folder / "best", file, "--json").stdout)["files"]
    assert from_model == scores, "the model folder is enough"
    assert Predictor.open(run.folder / "best").evaluate(str(file), "mood").metrics == {
        "mood": scores["metrics"]["mood"]
    }


def test_columns_may_be_called_otherwise_than_in_the_recipe(run: Run, tmp_path: Path) -> None:
    file = write(tmp_path, "phrase,verdict\na good film 0,yes\na dull film 1,no\na great film 2,no\n")
    named = ("--task", "mood", "--text-column", "phrase", "--label-column", "verdict")
    result = manyheads("evaluate", run.folder, file, *named, "--json", "-q")
    assert result.returncode == 0, result.stderr
    predictions = run.predict("mood", ["a good film 0", "a dull film 1", "a great film 2"])
    right = [row["prediction"] == label for row, label in zip(predictions, ("yes", "no", "no"), strict=True)]
    assert json.loads(result.stdout)["files"]["metrics"]["mood"]["accuracy"] == pytest.approx(sum(right) / 3)
    check_refused(manyheads("evaluate", run.folder, file, "--task", "mood"), "--text-column and --label-column")
    check_refused(manyheads("evaluate", run.folder, file, *named[2:]), "say which: --task")
    check_refused(manyheads("evaluate", run.folder, *named), "--text-column is about a FILE")
    check_refused(manyheads("evaluate", run.folder, file, "-t", "near", *named[2:4]), "near reads two text columns")


def test_files_of_several_tasks_are_each_measured_once(run: Run, tmp_path: Path) -> None:
    """Two files have the columns of 'stars'; the labels of one are those of another task."""
    stars = write(tmp_path, "sentence,label\na book,1\na film,3\n", "stars.csv")
    pets = write(tmp_path, "sentence,label\na dog,pet\na cat,pet\na tea,drink\n", "pets.csv")
    near = write(tmp_path, "sentence1,sentence2,score\na dog,a cat,4.5\na,b,0.5\n", "near.csv")
    scores = run.evaluate([stars, near, stars])
    assert scores.examples == {"stars": 4, "near": 2}
    scores = run.evaluate([stars, pets])
    assert scores.examples == {"stars": 2}
    assert scores.overall is None
    with pytest.raises(
        UserError, match="most of its labels are not this task's: label 'pet' is not one of 1, 2, 3"
    ) as fault:
        run.evaluate(pets)
    assert fault.value.code == "nothing-to-evaluate"


def test_rows_that_cannot_be_used_are_named_or_skipped_as_the_recipe_says(run: Run, tmp_path: Path) -> None:
    """Task 'colour' skips bad rows, 'mood' does not."""
    rows = "a good film,yes,red\na dull film,maybe,green\na dull film,no,blue\na dog,no,red\n"
    file = write(tmp_path, "text,label,colour\n" + rows)
    refused = manyheads("evaluate", run.folder, file)
    check_refused(
        refused, "task 'mood': 1 bad row of 4", f"{file}:3: label 'maybe' is not one of", "--task", "[bad-rows]"
    )
    skipped = manyheads("evaluate", run.folder, file, "--task", "colour", "-q")
    assert skipped.returncode == 0, skipped.stderr
    assert f"left out: colour: 1 row: label 'green' is not one of blue, red ({file}:3)" in skipped.stderr
    assert "overall" not in skipped.stdout
    check_refused(manyheads("evaluate", run.folder / "best", file, "-t", "colour"), f"{file}:3: label 'green'", "Mend")


def test_what_evaluate_refuses(run: Run, tmp_path: Path) -> None:
    file = write(tmp_path, "words,label\na,b\n")
    for words, expected in (
        ((run.folder, file), ("it lacks text or label columns", "mood: text, label", "[missing-column]")),
        ((run.folder, tmp_path / "no.csv"), ("no such file", "[no-such-file]")),
        ((run.folder, file, "--split", "dev"), ("not both", "[conflicting-options]")),
        ((run.folder, "--split", "tst"), ("Did you mean 'test'", "[unknown-split]")),
        (
            (run.folder, "--split", "test", "-t", "near"),
            ("near: the recipe names no test data", "[nothing-to-evaluate]"),
        ),
        ((run.folder, "-t", "moood"), ("Did you mean 'mood'", "[unknown-task]")),
        ((run.folder / "best",), ("name a FILE", "[no-evaluation-data]")),
        ((run.folder / "best", "--split", "dev"), ("name a FILE", "[no-evaluation-data]")),
        ((tmp_path,), ("not a run folder", "[not-a-run]")),
    ):
        check_refused(manyheads("evaluate", *words), *expected)


# --- predict --all -------------------------------------------------------------------------------------------------


def test_every_task_of_that_arity_predicts_from_any_column(run: Run, tmp_path: Path) -> None:
    """Tasks on columns 'text' and 'sentence' alike; those on pairs are named with the reason."""
    texts = ["a good film", "a dull book"]
    expected = {name: run.predict(name, texts) for name in ("mood", "colour", "stars")}
    for column, words in (("text", ()), ("comment", ()), ("x", ("--text-column", "x"))):
        file = write(tmp_path, f"id,{column},y\n7,a good film,1\n8,a dull book,2\n")
        result = manyheads("predict", run.folder, file, "--all", "--json", *words)
        assert result.returncode == 0, result.stderr
        rows = json.loads(result.stdout)
        assert [row["id"] for row in rows] == ["7", "8"]
        for number, row in enumerate(rows):
            assert {name: row[name] for name in expected} == {name: expected[name][number] for name in expected}
        assert result.stderr.splitlines() == [
            "left out: near: they take pairs, and these are single texts (of a FILE, name two columns: --text-column)"
        ]
    one_task = manyheads("predict", run.folder, file, "-t", "stars", "--text-column", "x", "--json")
    assert json.loads(one_task.stdout) == [
        {"id": id, **described} for id, described in zip("78", expected["stars"], strict=True)
    ]
    pairs = manyheads("predict", run.folder, file, "--all", "--text-column", "x", "--text-column", "y")
    assert pairs.stdout.splitlines()[0] == "id\tnear"
    assert "left out: mood, colour, stars: they take single texts, and these are pairs" in pairs.stderr


def test_text_columns_that_are_not_there(run: Run, tmp_path: Path) -> None:
    file = write(tmp_path, "id,words,y\n7,a good film,b\n")
    for words, expected in (
        (("--all",), ("cannot tell which column holds the texts", "Columns: id, words, y", "[missing-column]")),
        (("--all", "--text-column", "word"), ("no column 'word'. Did you mean 'words'", "[missing-column]")),
        (("-t", "mood"), ("no column 'text'", "--text-column", "[missing-column]")),
        (("-t", "near", "--text-column", "y"), ("takes two text columns, found y", "[bad-text-column]")),
        (("--all", *("--text-column", "y") * 3), ("expected one or two text columns", "[bad-text-column]")),
    ):
        check_refused(manyheads("predict", run.folder, file, *words), *expected)
    check_refused(manyheads("predict", run.folder, "--all", "--text-column", "y"), "name one", "[conflicting-options]")
