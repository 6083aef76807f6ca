"""Extra rows: texts that are held out are left out of them, however they are spelt, and the number is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manyheads.checks.check import check_data
from manyheads.data.extra_rows import normal_form, text_keys
from manyheads.errors import UserError
from manyheads.storage.strings import Strings
from manyheads.tasks.load import TaskData, load_tasks
from manyheads.tasks.resolve import load_recipe

ToyRecipe = Callable[..., dict[str, Any]]
TREES = """\
(3 (2 A) (4 (3 really) (4 (4 good) (2 film))))
(1 (2 the) (0 (0 dull) (2 film)))
(1 (2 so) (0 (0 Dull) (2 end)))
(0 (1 not) (4 (4 good) (2 -RRB-)))
"""


def write(folder: Path, name: str, rows: list[str]) -> None:
    lines = [f"{number},{row}" for number, row in enumerate(rows)]
    (folder / name).write_text("id,sentence,label\n" + "\n".join(lines) + "\n")


def load(toy_recipe: ToyRecipe, task: dict[str, Any], **changes: Any) -> TaskData:
    return load_tasks(load_recipe(toy_recipe(tasks={"mood": task}, **changes)))["mood"]


def texts(data: TaskData, file: int) -> list[str]:
    rows = data.train.files == file
    return [text for text, is_here in zip(data.train.texts[0], rows, strict=True) if is_here]


@pytest.fixture
def phrases(toy_data: Path) -> dict[str, Any]:
    (toy_data / "trees.txt").write_text(TREES)
    write(toy_data, "dev.csv", ["  GOOD   film ,4", "why,2"])
    write(toy_data, "test.csv", ["not good ),0"])
    trees = {"file": "trees.txt", "format": "trees", "phrases": True}
    return {"train": ["mood.csv", trees], "dev": "dev.csv", "test": "test.csv"}


def test_phrases_of_dev_and_test_are_left_out_and_repeats_come_once(
    toy_recipe: ToyRecipe, phrases: dict[str, Any]
) -> None:
    data = load(toy_recipe, phrases)
    assert texts(data, 1) == [
        "A really good film", "A", "really good film", "really", "good", "film",
        "the dull film", "the", "dull film", "dull",
        "so Dull end", "so", "Dull end", "end",
    ]  # fmt: skip
    assert (
        "mood: trees.txt: 14 of 22 rows; 6 left out whose text is held out (dev or test), 2 that repeat an earlier one"
        in data.notes
    )
    assert len(texts(data, 0)) == 40, "other sources stay as they are"


def test_a_sentence_that_is_held_out_takes_its_phrases_with_it(toy_recipe: ToyRecipe, phrases: dict[str, Any]) -> None:
    """'not good )' is the last tree's, so 'not' and ')' are gone too; 'good' is in another."""
    left = texts(load(toy_recipe, phrases), 1)
    assert "not" not in left
    assert ")" not in left
    assert "good" in left
    phrases["train"][1]["leave_out"] = ["dev"]
    assert texts(load(toy_recipe, phrases), 1)[-4:] == ["not good )", "not", "good )", ")"]
    phrases["train"][1]["leave_out"] = []
    assert "good film" in texts(load(toy_recipe, phrases), 1)


def test_nothing_is_held_out_of_extra_rows(toy_recipe: ToyRecipe, phrases: dict[str, Any], toy_data: Path) -> None:
    """Dev and select are parts of mood.csv, and phrases of what they have are not trained on."""
    moods = (toy_data / "mood.csv").read_text().splitlines()[1:]
    sentences = [row.split(",")[1] for row in moods]
    (toy_data / "trees.txt").write_text(
        "".join(f"(1 (2 {text}) (3 x{row}))\n(2 {text})\n" for row, text in enumerate(sentences))
    )
    task = {"train": phrases["train"]}
    data = load(toy_recipe, task, evaluate={"select": 0.25})
    assert data.select is not None
    for held_out in (data.dev, data.select):
        assert set(held_out.files.tolist()) == {0}
        assert not set(held_out.texts[0]) & set(data.train.texts[0])
    held_out_texts = {*data.dev.texts[0], *data.select.texts[0]}
    assert len(held_out_texts) == 4 + 9  # a tenth of 40, a quarter of 36
    assert len(texts(data, 0)) == 27
    # of each sentence 's x', 's', 'x' and again 's': of the 13 held-out ones both of 's' go, of the 27 others one
    assert len(texts(data, 1)) == 160 - 2 * 13 - 27 == 107


def test_any_source_may_be_extra(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    sentence = (toy_data / "mood.csv").read_text().splitlines()[2].split(",")[1]
    extra = {"file": "more.csv", "leave_out": ["dev"], "limit": 5}
    write(toy_data, "more.csv", [f"{sentence.upper()},1", "new,2", "new,2"])
    data = load(toy_recipe, {"train": ["mood.csv", extra], "dev": "mood.csv"})
    assert texts(data, 1) == ["new", "new"], "only phrases are made unique"
    assert "mood: more.csv: 2 of 3 rows; 1 left out whose text is held out (dev)" in data.notes


def test_train_without_a_row_is_refused(toy_recipe: ToyRecipe) -> None:
    with pytest.raises(UserError, match="every row is left out") as caught:
        load(toy_recipe, {"train": {"file": "mood.csv", "leave_out": ["dev"]}, "dev": "mood.csv"})
    assert caught.value.code == "no-rows"


def test_texts_are_compared_in_a_normal_form() -> None:
    assert normal_form("  It 's\u00a0GOOD -lrb- 1\\/2 -RRB-\t") == "it 's good ( 1/2 )"
    pair = (Strings.of(["B", "a"]), Strings.of(["a", "b "]))
    assert text_keys(pair, symmetric=False) == [("b", "a"), ("a", "b")]
    assert text_keys(pair, symmetric=True) == [("a", "b"), ("a", "b")]


@pytest.mark.slow
def test_check_says_nothing_of_what_training_leaves_out_itself(toy_recipe: ToyRecipe, phrases: dict[str, Any]) -> None:
    kinds = {finding.kind for finding in check_data(load_recipe(toy_recipe(tasks={"mood": phrases})))}
    assert not kinds & {"duplicates", "conflicts", "overlap", "recipe"}
    phrases["train"][1]["leave_out"] = []
    kinds = {finding.kind for finding in check_data(load_recipe(toy_recipe(tasks={"mood": phrases})))}
    assert {"duplicates", "overlap"} <= kinds


@pytest.mark.slow
def test_real_sentences_are_recognised_in_real_trees(shared_data: Path) -> None:
    """Every sentence of the treebank's dev file is in the course's, so no phrase of it may be trained on."""
    trees = {"file": "sst-trees-dev.txt", "format": "trees", "phrases": True}
    task = {"train": ["ids-sst-train.csv", trees], "dev": "ids-sst-dev.csv"}
    recipe = load_recipe({"encoder": "toy", "data": {"root": str(shared_data)}, "tasks": {"sst": task}})
    data = load_tasks(recipe)["sst"]
    assert set(data.train.files.tolist()) == {0}
    left_out = "0 of 41,447 rows; 41,447 left out whose text is held out (dev or test), 0 that repeat an earlier one"
    assert f"sst: sst-trees-dev.txt: {left_out}" in data.notes
