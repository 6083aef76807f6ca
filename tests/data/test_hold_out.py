"""Rows held out: no text on both sides, the share that was asked for, the same rows every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from manyheads.data.hold_out import hold_out_rows, text_groups
from manyheads.tasks.load import TaskData, load_tasks
from manyheads.tasks.resolve import load_recipe


def load(folder: Path, rows: list[str], header: str = "text,label", select: float | None = None) -> TaskData:
    (folder / "x.csv").write_text(header + "\n" + "\n".join(rows) + "\n")
    content = {"data": {"root": str(folder)}, "tasks": {"t": {"train": "x.csv", "dev": "x.csv"}}}
    if select is not None:
        content["evaluate"] = {"select": select}
    return load_tasks(load_recipe(content))["t"]


def test_equal_texts_are_one_group_and_both_texts_of_a_pair_count(tmp_path: Path) -> None:
    data = load(tmp_path, ["a,b,0", "a,c,1", "a,b,1", "b,a,0"] * 2, "sentence1,sentence2,label")
    groups = text_groups(data.dev).tolist()
    assert groups[0] == groups[2] == groups[4] == groups[6]
    assert len(set(groups)) == 3


def test_no_text_is_on_both_sides(tmp_path: Path) -> None:
    rows = [f"text {i % 70},{i % 2}" for i in range(200)]  # most texts stand there three times
    data = load(tmp_path, rows, select=0.2)
    assert data.select is not None
    kept, held_out = set(data.train.texts[0].to_pylist()), set(data.select.texts[0].to_pylist())
    assert not kept & held_out
    assert len(data.train) + len(data.select) == 200
    assert 35 <= len(data.select) <= 40


def test_without_repeated_texts_it_is_the_first_rows_of_the_order(tmp_path: Path) -> None:
    dataset = load(tmp_path, [f"text {i},{i % 2}" for i in range(20)]).dev
    order = np.random.default_rng(0).permutation(20)
    kept, held_out = hold_out_rows(dataset, order, 5)
    assert held_out.tolist() == sorted(order[:5].tolist())
    assert kept.tolist() == sorted(order[5:].tolist())


def test_a_text_that_is_everywhere_does_not_prevent_it(tmp_path: Path) -> None:
    dataset = load(tmp_path, [f"same,{i % 2}" for i in range(20)]).dev
    kept, held_out = hold_out_rows(dataset, np.arange(20), 4)
    assert (len(kept), len(held_out)) == (16, 4)


def test_a_recipe_that_says_nothing_holds_out_a_useful_part(tmp_path: Path) -> None:
    """5 %, but at least 100 rows, of which a small task gives at most a tenth; fewer than 100 rows give none."""
    sizes = {}
    for count in (90, 300, 1500, 4000):
        data = load(tmp_path, [f"text {i},{i % 2}" for i in range(count)])
        sizes[count] = 0 if data.select is None else len(data.select)
        if data.select is None:
            assert data.notes == ["t: too few rows to hold some out, so its dev chooses checkpoints"]
    assert sizes == {90: 0, 300: 30, 1500: 100, 4000: 200}


def test_a_pair_without_order_and_the_same_swapped_are_held_out_together(tmp_path: Path) -> None:
    rows = [f"a{row},b{row},1\nb{row},a{row},2" for row in range(20)]
    (tmp_path / "x.csv").write_text("sentence1,sentence2,label\n" + "\n".join(rows) + "\n")
    for symmetric in (True, False):
        task = {"train": "x.csv", "symmetric": symmetric}
        data = load_tasks(load_recipe({"data": {"root": str(tmp_path)}, "tasks": {"t": task}}))["t"]
        kept = {frozenset(pair) for pair in zip(*data.train.texts, strict=True)}
        held_out = {frozenset(pair) for pair in zip(*data.dev.texts, strict=True)}
        assert (not kept & held_out) == symmetric


def test_the_order_of_a_pair_is_left_out_of_its_group(tmp_path: Path) -> None:
    data = load(tmp_path, ["a,b,0", "b,a,1", "a,a,1", "b,b,0", "a,b,1"], "sentence1,sentence2,label")
    first, second, *others = text_groups(data.train, symmetric=True).tolist()
    assert first == second == others[-1]
    assert len({first, *others}) == 3
