"""Commands as a user types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from command import check_refused, manyheads
from manyheads.registry import parts
from manyheads.storage.cache import cache_folder

COMMANDS = ("train", "resume", "evaluate", "predict", "plan", "check", "recipes", "parts", "doctor", "demo")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run for all tests that only read it."""
    from conftest import write_toy_encoder

    folder = tmp_path_factory.mktemp("cli")
    write_toy_encoder(folder / "encoder")
    rows = "".join(
        f"{i},the {'film' if i % 2 else 'book'} was good {i},{'yes' if i % 2 else 'no'}\n" for i in range(30)
    )
    (folder / "one.csv").write_text("id,text,label\n" + rows)
    pairs = "".join(f"{i},a dog {i},a cat,{i % 6}.5\n" for i in range(30))
    (folder / "two.csv").write_text("id,sentence1,sentence2,score\n" + pairs)
    recipe = folder / "cli.yaml"
    recipe.write_text(
        "encoder: encoder\ntasks:\n  one: {train: one.csv}\n  two: {train: two.csv}\n"
        f"training: {{max_steps: 3, batch_size: 4}}\noutput: {folder}\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "manyheads", "train", str(recipe), "--json"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(result.stdout)["steps"] == 3
    for words in (
        "task one: 27 train, 3 dev",
        "2 classes: no ",
        "train 3/3",
        "loss: one ",
        "examples/s",
        " left",
    ):
        assert words in result.stderr
    return folder / "cli"


@pytest.mark.slow
def test_help_is_complete_and_does_not_load_torch() -> None:
    result = manyheads("--help")
    assert all(command in result.stdout for command in COMMANDS)
    for command in COMMANDS:
        assert "Usage: manyheads " + command in manyheads(command, "--help").stdout
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "manyheads", "--help"], capture_output=True, text=True, check=True
    ).stderr
    imported = {line.split("|")[-1].strip() for line in loaded.splitlines()}
    assert "typer" in imported
    assert not imported & {"torch", "transformers", "numpy", "pydantic", "pyarrow"}, "--help must come at once"


@pytest.mark.slow
def test_evaluate_prints_a_table_or_json(trained: Path) -> None:
    table = manyheads("evaluate", trained)
    assert table.returncode == 0, table.stderr
    for words in ("accuracy", "pearson", "overall"):
        assert words in table.stdout
    found = json.loads(manyheads("evaluate", trained, "--json").stdout)
    assert found["dev"].items() >= json.loads((trained / "metrics.json").read_text())["dev"].items()
    assert manyheads("evaluate", trained, "--model", "best-one", "-q").stderr == ""


@pytest.mark.slow
def test_predict_from_text_stdin_and_files_agree(trained: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = ["the film was good", "a dull book"]
    by_option = manyheads("predict", trained, "-t", "one", "--text", texts[0], "--text", texts[1])
    assert by_option.returncode == 0, by_option.stderr
    lines = by_option.stdout.splitlines()
    assert [line.split("\t")[0] in ("yes", "no") for line in lines] == [True, True]
    assert manyheads("predict", trained, "-t", "one", stdin="\n".join(texts) + "\n").stdout == by_option.stdout
    (tmp_path / "a.csv").write_text("id,text\n7,the film was good\n8,a dull book\n")
    (tmp_path / "a.tsv").write_text("id\ttext\n7\tthe film was good\n8\ta dull book\n")
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in zip("78", texts, strict=True))
    )
    pq.write_table(pa.table({"id": ["7", "8"], "text": texts}), tmp_path / "a.parquet")
    for ending in ("csv", "tsv", "jsonl", "parquet"):
        result = manyheads("predict", trained, tmp_path / f"a.{ending}", "-t", "one")
        assert result.stdout.splitlines() == [f"7\t{lines[0]}", f"8\t{lines[1]}"], result.stderr


@pytest.mark.slow
def test_predict_pairs_and_json(trained: Path) -> None:
    found = json.loads(manyheads("predict", trained, "-t", "two", "--text", "a", "--text", "b", "--json").stdout)
    assert len(found) == 1
    assert isinstance(found[0]["prediction"], float)
    stdin = manyheads("predict", trained, "-t", "two", stdin="a\tb\n")
    assert float(stdin.stdout) == pytest.approx(found[0]["prediction"], abs=1e-3)
    assert manyheads("predict", trained, "-t", "two", stdin="a\n").returncode == 2
    check_refused(manyheads("predict", trained, "-t", "two", "--text", "a"), "takes pairs", "[odd-texts]")
    probabilities = json.loads(manyheads("predict", trained, "-t", "one", "--text", "a", "--json").stdout)[0]
    assert sum(probabilities["probabilities"].values()) == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
def test_options_that_exclude_each_other(trained: Path, tmp_path: Path) -> None:
    for words in (("--text", "a", tmp_path / "a.csv"), ("--all", "--task", "one")):
        check_refused(manyheads("predict", trained, *words), "not both", "[conflicting-options]")
    for model in ("best", "best-one", "best-x"):
        refused = manyheads("predict", trained / "best", "-t", "one", "--text", "a", "--model", model)
        check_refused(refused, f"--model {model}", "leave it out", "[conflicting-options]")
    assert "best-averaged" in manyheads("predict", "--help").stdout
    check_refused(manyheads("report", trained, "--scale", "small"), "a run has none", "[conflicting-options]")
    check_refused(manyheads("report", trained, "seed=3"), "only studies take settings", "[conflicting-options]")
    check_refused(manyheads("report", "papers/e1"), "Did you mean 'papers/e1-encodings'", "[unknown-subject]")


@pytest.mark.slow
def test_predict_for_every_task(trained: Path) -> None:
    """One column per task that takes such texts: single texts here."""
    header, line = manyheads("predict", trained, "--all", "--text", "a good film").stdout.splitlines()
    assert header == "id\tone"
    number, prediction = line.split("\t")
    assert number == "0"
    label, probability = prediction.split(" ")
    assert label in ("yes", "no")
    assert 0.5 <= float(probability) <= 1
    pairs = json.loads(manyheads("predict", trained, "--all", "--json", stdin="a\tb\nc\td\n").stdout)
    assert [(pair["id"], list(pair)) for pair in pairs] == [("0", ["id", "two"]), ("1", ["id", "two"])]


def test_parts_lists_every_registered_part() -> None:
    found = json.loads(manyheads("parts", "--json").stdout)
    assert [(one["family"], one["name"]) for one in found] == [(part.family, part.name) for part in parts()]
    table = manyheads("parts", "losses").stdout
    assert "cross-entropy" in table
    assert "batch-round-robin" not in table
    assert "Did you mean 'losses'" in manyheads("parts", "loses").stderr


def test_recipes_lists_what_is_shipped() -> None:
    found = json.loads(manyheads("recipes", "--json").stdout)
    assert {"demo", "best"} <= {one["name"] for one in found}
    assert all(one["description"] for one in found)


@pytest.mark.slow
def test_doctor_finds_the_default_encoder() -> None:
    found = {one["what"]: one["found"] for one in json.loads(manyheads("doctor", "--json").stdout)}
    assert found["torch threads"] == os.environ["OMP_NUM_THREADS"]
    assert "cpu" in found["devices"]
    assert "checksum right" in found["encoder all-MiniLM-L6-v2"]
    assert found["cache"] == str(cache_folder())


@pytest.mark.slow
def test_three_line_recipe(tmp_path: Path, toy_encoder: Path, toy_data: Path) -> None:
    """One task, one file, nothing else (the override only swaps in the small encoder)."""
    recipe = toy_data / "three.yaml"
    recipe.write_text("tasks:\n  mood:\n    train: mood.csv\n")
    result = manyheads("train", recipe, f"encoder={toy_encoder}", f"output={tmp_path / 'out'}", "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["dev"]["examples"] == {"mood": 4}
    assert found["steps"] == 3  # three passes over 36 rows, 32 in a step


@pytest.mark.slow
def test_progress_on_a_terminal(
    trained: Path, toy_recipe: Callable[..., object], recipe_file: Callable[..., Path]
) -> None:
    """A live bar under a real pseudo-terminal, with evaluation nested in training."""
    import pty

    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "manyheads", "train", str(recipe_file())],
        stdin=child, stdout=child, stderr=child, env={**os.environ, "TERM": "xterm", "COLUMNS": "150"},
    )  # fmt: skip
    os.close(child)
    shown = b""
    while True:
        try:
            piece = os.read(parent, 4096)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        shown += piece
    os.close(parent)
    assert process.wait() == 0
    text = shown.decode(errors="replace")
    assert "Traceback" not in text
    for words in ("10/10", "loss: mood", "examples/s", "left", "overall"):
        assert words in text
