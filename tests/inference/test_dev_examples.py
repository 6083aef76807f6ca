"""dev.parquet: the dev examples of a run, in the order of its predictions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from manyheads import load_recipe, train
from manyheads.errors import UserError
from manyheads.inference import dev_examples
from manyheads.inference.dev_examples import read_dev_examples, write_dev_examples
from manyheads.model.task_tokens import TaskTokens
from manyheads.tasks.load import load_tasks
from manyheads.tokens.tokenizer import Tokenizer

ToyRecipe = Callable[..., dict[str, Any]]


@pytest.mark.slow
def test_a_run_keeps_its_dev_examples(toy_recipe: ToyRecipe) -> None:
    """Single texts and pairs; labelled rows only; ids and texts of the rows that dev.safetensors has labels of."""
    recipe = load_recipe(toy_recipe())
    folder = train(recipe, quiet=True).folder
    kept = read_dev_examples(folder)
    labels = load_file(folder / "dev.safetensors")
    assert list(kept) == ["mood", "near"]
    for task_name, loaded in load_tasks(recipe).items():
        assert kept[task_name].ids == loaded.dev.ids.to_pylist()
        assert kept[task_name].texts == list(zip(*map(list, loaded.dev.texts), strict=True))
        assert len(kept[task_name].ids) == len(labels[f"{task_name}.labels"])
    assert {len(texts) for texts in kept["near"].texts} == {2}


def test_rows_without_a_label_are_left_out(
    toy_recipe: ToyRecipe, toy_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks on the same rows, each with gaps; written in many small pieces."""
    rows = [f'{i},"a film, {i} ☃",{i % 2 if i % 3 else ""},{i % 2 if i % 3 != 1 else ""}' for i in range(60)]
    (toy_data / "both.csv").write_text("id,sentence,first,second\n" + "\n".join(rows) + "\n", encoding="utf-8")
    tasks = {name: {"train": "both.csv", "label": name, "kind": "classification"} for name in ("first", "second")}
    recipe = load_recipe(toy_recipe(tasks=tasks))
    tokenizer = Tokenizer(Path(recipe.encoder.name))
    dev = {name: TaskTokens(data.task, data.dev, tokenizer) for name, data in load_tasks(recipe).items()}
    monkeypatch.setattr(dev_examples, "EXAMPLES_PER_WRITE", 3)
    assert write_dev_examples(tmp_path, dev) == tmp_path / "dev.parquet"
    kept = read_dev_examples(tmp_path)
    for name, remainder in (("first", 0), ("second", 1)):
        assert len(kept[name].ids) == dev[name].examples.labelled.sum() > 0
        assert all(int(example_id) % 3 != remainder for example_id in kept[name].ids)
        assert kept[name].texts == [(f"a film, {example_id} ☃",) for example_id in kept[name].ids]
    assert not list(tmp_path.glob(".*.new"))


def test_no_file_and_a_damaged_file(tmp_path: Path) -> None:
    assert read_dev_examples(tmp_path) == {}
    (tmp_path / "dev.parquet").write_bytes(b"PAR1 cut off")
    with pytest.raises(UserError, match=r"dev\.parquet: damaged") as refused:
        read_dev_examples(tmp_path)
    assert refused.value.code == "damaged-file"
