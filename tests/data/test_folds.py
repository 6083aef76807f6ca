"""Folds of train: what belongs together is left out together, and every row is left out once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from manyheads.config.task import Fold
from manyheads.storage.strings import Strings
from manyheads.tasks.load import load_tasks
from manyheads.tasks.resolve import load_recipe

FOLDS = 5


def trains_without_folds(folder: Path, task: dict[str, Any]) -> list[set[tuple[str, ...]]]:
    """What is left of train without each of the folds."""
    trains = []
    for number in range(1, FOLDS + 1):
        settings = {**task, "without_fold": {"number": number, "of": FOLDS}}
        content = {"data": {"root": str(folder)}, "evaluate": {"select": None}, "tasks": {"t": settings}}
        train = load_tasks(load_recipe(content))["t"].train
        trains.append(set(zip(*train.texts, strict=True)))
    return trains


def test_a_pair_without_order_and_the_same_swapped_are_in_one_fold(tmp_path: Path) -> None:
    rows = [f"a{row},b{row},1\nb{row},a{row},2" for row in range(20)]
    (tmp_path / "x.csv").write_text("sentence1,sentence2,label\n" + "\n".join(rows) + "\n")
    for symmetric in (True, False):
        trains = trains_without_folds(tmp_path, {"train": "x.csv", "dev": "x.csv", "symmetric": symmetric})
        whole = [all(pair[::-1] in train for pair in train) for train in trains]
        assert all(whole) == symmetric


def test_extra_rows_are_in_the_fold_of_the_same_text_however_it_is_spelt(tmp_path: Path) -> None:
    (tmp_path / "dev.csv").write_text("sentence,label\nwhy,0\nnot,1\n")
    (tmp_path / "x.csv").write_text("sentence,label\n" + "".join(f"Film  {row},{row % 2}\n" for row in range(40)))
    (tmp_path / "more.csv").write_text("sentence,label\n" + "".join(f"film {row},{row % 2}\n" for row in range(40)))
    more = {"file": "more.csv", "leave_out": ["dev"]}
    for train in trains_without_folds(tmp_path, {"train": ["x.csv", more], "dev": "dev.csv"}):
        spellings = [text for (text,) in train]
        assert {text.lower().replace("  ", " ") for text in spellings if text.startswith("F")} == {
            text for text in spellings if text.startswith("f")
        }


def test_phrases_are_in_the_fold_of_their_sentence(tmp_path: Path) -> None:
    """A tree's phrases say what its sentence says. 'dull 0' has two labels, so it joins two trees."""
    (tmp_path / "dev.csv").write_text("sentence,label\nwhy,0\nnot,1\n")
    trees = [f"(1 (0 (0 dull) (0 n{row})) (1 (1 end) (1 m{row})))" for row in range(30)]
    trees.append("(0 (1 (0 dull) (0 n0)) (0 (0 so) (0 so)))")
    (tmp_path / "trees.txt").write_text("\n".join(trees) + "\n")
    (tmp_path / "x.csv").write_text("sentence,label\n" + "".join(f"DULL n{row} end m{row},1\n" for row in range(30)))
    phrases = {"file": "trees.txt", "format": "trees", "phrases": True}
    for train in trains_without_folds(tmp_path, {"train": ["x.csv", phrases], "dev": "dev.csv"}):
        texts = {text for (text,) in train}
        for row in range(30):
            tree = {f"DULL n{row} end m{row}", f"dull n{row} end m{row}", f"dull n{row}", f"end m{row}", f"m{row}"}
            assert texts >= tree or not texts & tree
        assert ("m0" in texts) == ("dull n0 so so" in texts)


@pytest.mark.parametrize(("symmetric", "extra"), [(False, False), (True, False), (True, True)])
def test_a_text_is_new_where_no_row_outside_the_fold_has_it(symmetric: bool, extra: bool, tmp_path: Path) -> None:
    """Texts are one text as they are for folds: swapped where pairs have no order, in any case where rows are extra."""
    header = "sentence1,sentence2,label\n"
    (tmp_path / "x.csv").write_text(header + "".join(f"a{row},b{row},{row % 2}\n" for row in range(20)))
    (tmp_path / "more.csv").write_text(header + "".join(f"c{row},d{row},{row % 2}\n" for row in range(20)))
    sources = ["x.csv", {"file": "more.csv", **({"leave_out": ["dev"]} if extra else {})}]
    task = {"train": sources, "dev": "x.csv", "symmetric": symmetric}
    content = {"data": {"root": str(tmp_path)}, "evaluate": {"select": None}, "tasks": {"t": task}}
    folds = load_tasks(load_recipe(content))["t"].folds
    pairs = [("a3", "b3"), ("b3", "a3"), ("A3", "b3"), ("nobody", "b3")]
    texts = tuple(Strings.of(list(side)) for side in zip(*pairs, strict=True))
    fold_of_row = folds.fold_of_rows(FOLDS)[list(folds.rows.texts[0]).index("a3")]
    is_known = [True, symmetric, extra, False]
    for number in range(1, FOLDS + 1):
        unseen = folds.are_unseen(texts, Fold(number=number, of=FOLDS))
        assert unseen.tolist() == [not known or number - 1 == fold_of_row for known in is_known]
