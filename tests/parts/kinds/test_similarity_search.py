"""A search by similarity, from training to vectors that other packages give too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from command import check_refused, manyheads
from manyheads import Predictor, load_recipe
from manyheads.console import Reporter
from manyheads.errors import UserError
from manyheads.tasks.load import load_tasks
from manyheads.training.setup import assemble

ADJECTIVES, NOUNS = ("red", "old", "good", "dull"), ("dog", "cat", "film", "book", "tea", "meal")
# an answer has other words than its query: an encoder that was not trained cannot know them
OTHER = dict(
    zip(
        (*ADJECTIVES, *NOUNS),
        ["blue", "new", "great", "poor", "men", "women", "hotel", "guitar", "coffee", "swim"],
        strict=True,
    )
)
WITH_HEAD = {"head": "linear", "loss": {"name": "multiple-negatives", "width": 12, "widths": [4]}}
PAIRS = [(adjective, noun) for adjective in ADJECTIVES for noun in NOUNS]


def a_row(number: int) -> dict[str, Any]:
    """'the red dog' → 'one men is blue'; of every second row wrong answers with one of these words."""
    adjective, noun = PAIRS[number % len(PAIRS)]
    row: dict[str, Any] = {"query": f"the {adjective} {noun}"}
    adjective, noun = OTHER[adjective], OTHER[noun]
    row["positive"] = f"one {noun} is {adjective}"
    row["negatives"] = []
    if number % 2:
        row["negatives"] = [f"one {noun} is warm", f"one film is {adjective}"][: 1 + number % 3 // 2]
    return row


def write_rows(file: Path, rows: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def search(recipe_file: Callable[..., Path], toy_data: Path) -> Callable[..., Path]:
    """24 rows to train on, 12 of them for dev."""
    write_rows(toy_data / "train.jsonl", [a_row(number) for number in range(24)])
    write_rows(toy_data / "dev.jsonl", [a_row(number) for number in range(0, 24, 2)])

    def make(task: dict[str, Any] | None = None, **changes: Any) -> Path:
        tasks = {"search": {"train": "train.jsonl", "dev": "dev.jsonl", **(task or {})}}
        training = {"epochs": 20, "batch_size": 12, "learning_rate": 3e-3}
        return recipe_file(**{"defaults": None, "tasks": tasks, "training": training, **changes})

    return make


@pytest.mark.slow
@pytest.mark.parametrize(
    "task",
    [{}, {"head": "linear", "loss": {"name": "multiple-negatives", "width": 12, "widths": [4]}}],
    ids=["", "head"],
)
def test_from_training_to_vectors(task: dict[str, Any], search: Callable[..., Path], toy_data: Path) -> None:
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer

    recipe, run = search(task), toy_data / "runs" / "toy"
    planned = manyheads("plan", recipe, "--no-time")
    assert planned.returncode == 0, planned.stderr
    trained = manyheads("train", recipe)
    assert trained.returncode == 0, trained.stderr
    metrics = json.loads((run / "metrics.json").read_text())
    dev = metrics["dev"]["metrics"]["search"]
    assert list(dev) == ["mrr", "recall-at-k", "ndcg-at-k"]
    assert dev["mrr"] > metrics["frozen"]["metrics"]["search"]["mrr"], "the encoder's own vectors find less"
    assert (run / "predictions" / "search-dev.csv").read_text().startswith("id,prediction\n0,0.")

    measured = json.loads(manyheads("evaluate", run / "best", toy_data / "dev.jsonl", "--json").stdout)
    values = measured["files"]["metrics"]["search"]
    assert values == pytest.approx(dev)
    write_rows(
        toy_data / "renamed.jsonl", [{"q": row["query"], "a": row["positive"]} for row in map(a_row, range(0, 24, 2))]
    )
    named = ("--task", "search", "--text-column", "q", "--text-column", "a", "--json")
    renamed = json.loads(manyheads("evaluate", run / "best", toy_data / "renamed.jsonl", *named).stdout)
    assert renamed["files"]["metrics"]["search"] == values

    # vectors: by embed, in Python, by sentence-transformers
    texts = [a_row(number)["query"] for number in range(9)]
    file = toy_data / "texts.txt"
    file.write_text("\n".join(texts) + "\n")
    embedded = manyheads("embed", run, file, "--to", toy_data / "out.npy")
    assert embedded.returncode == 0, embedded.stderr
    vectors = np.load(toy_data / "out.npy")
    assert (vectors.dtype, vectors.shape) == (np.float32, (9, 12 if task else 32))
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(9), abs=1e-6)
    predictor = Predictor.open(run / "best")
    assert predictor.embed(texts, task="search") == pytest.approx(vectors, abs=1e-6)
    assert manyheads("embed", run, file, "--to", toy_data / "out.parquet").returncode == 0
    table = pq.read_table(toy_data / "out.parquet")
    assert table["id"].to_pylist() == [str(number) for number in range(9)]
    assert np.array(table["vector"].to_pylist(), dtype=np.float32) == pytest.approx(vectors, abs=1e-6)
    assert manyheads("embed", run, file, "--width", "4").returncode == 0
    cut = vectors[:, :4] / np.linalg.norm(vectors[:, :4], axis=1, keepdims=True)
    assert np.load(toy_data / "texts.npy") == pytest.approx(cut, abs=1e-6)

    exported = manyheads("export", run, "--to", "sentence-transformers")
    assert exported.returncode == 0, exported.stderr
    theirs = SentenceTransformer(str(run / "exported-sentence-transformers"), device="cpu")
    assert theirs.encode(texts) == pytest.approx(vectors, abs=1e-5)

    # a pair has the cosine of its vectors
    pairs = [(texts[0], texts[1]), (texts[0], texts[2])]
    cosines = [line["prediction"] for line in predictor.predict("search", pairs)]
    assert cosines == pytest.approx([float(vectors[0] @ vectors[1]), float(vectors[0] @ vectors[2])], abs=1e-5)
    assert manyheads("report", run).returncode == 0
    assert (
        "Single predictions of search are not shown: it is a search by similarity." in (run / "report.html").read_text()
    )
    published = manyheads("publish", run)
    assert published.returncode == 0, published.stderr
    card = (run / "published" / "README.md").read_text()
    assert "pipeline_tag: sentence-similarity" in card
    assert "a vector of each text, near those that match" in card


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["multiple-negatives", {"name": "multiple-negatives", "mined": 2}], ids=["", "mined"])
def test_passes_are_cut_and_runs_resume_to_the_same_bits(
    loss: Any, search: Callable[..., Path], toy_data: Path
) -> None:
    from test_word_tags import KILLED_AT_STEP_8

    training = {"epochs": 6, "batch_size": 12, "learning_rate": 1e-3, "tokens_per_pass": 64}
    recipe = search({"loss": loss}, training=training)
    assert manyheads("train", recipe, "name=whole").returncode == 0
    assert manyheads("train", recipe, "name=parted", before=KILLED_AT_STEP_8).returncode == 9
    runs = toy_data / "runs"
    resumed = manyheads("resume", runs / "parted")
    assert resumed.returncode == 0, resumed.stderr
    for name in ("best/heads.safetensors", "best/model.safetensors", "dev.safetensors"):
        assert (runs / "whole" / name).read_bytes() == (runs / "parted" / name).read_bytes()
    mined = [line for line in (runs / "parted" / "log.jsonl").read_text().splitlines() if '"event": "mine"' in line]
    assert len(mined) == (0 if loss == "multiple-negatives" else 5), "after every epoch but the last"


@pytest.mark.slow
def test_a_search_beside_another_task_with_surgery_and_frozen_layers(
    search: Callable[..., Path], toy_data: Path
) -> None:
    tasks = {
        "search": {"train": "train.jsonl", "dev": "dev.jsonl"},
        "mood": {"train": "mood.csv"},
        "near": {"train": "near.tsv", "range": [0, 5]},
    }
    beside = search(tasks=tasks, combine={"gradients": "pcgrad"}, training={"epochs": 1, "batch_size": 8})
    assert manyheads("train", beside, "name=surgery").returncode == 0
    frozen = manyheads("train", beside, "name=frozen", "training.trainable=[2]", "combine.gradients=null")
    assert frozen.returncode == 0, frozen.stderr
    every = manyheads("predict", toy_data / "runs" / "frozen", toy_data / "near.tsv", "--all", "--json")
    assert every.returncode == 0, every.stderr
    assert set(json.loads(every.stdout)[0]) == {"id", "search", "near"}


@pytest.mark.slow
def test_margins_of_a_teacher(search: Callable[..., Path], toy_data: Path) -> None:
    rows = [a_row(number) for number in range(1, 24, 2)]
    for row in rows:
        row["scores"] = [9.0, *([2.0] * len(row["negatives"]))]
    write_rows(toy_data / "scored.jsonl", rows)
    task = {"train": "scored.jsonl", "dev": "dev.jsonl", "label": "scores", "kind": "similarity-search"}
    del rows[0]["scores"]
    refused = manyheads("train", search({**task, "bad_rows": "error"}))
    check_refused(refused, "dev.jsonl: no column 'scores'")
    task["dev"] = "scored.jsonl"
    trained = manyheads("train", search(task))
    assert trained.returncode == 0, trained.stderr
    assert "margin-mse" in trained.stdout + trained.stderr
    rows[3]["scores"] = [1.0, 2.0, 3.0, 4.0]
    write_rows(toy_data / "scored.jsonl", rows[1:])
    check_refused(manyheads("train", search(task), "name=more"), "scored.jsonl:3: 4 scores for", "[label-count]")
    rows[3]["scores"] = ["high"]
    write_rows(toy_data / "scored.jsonl", rows[1:])
    check_refused(manyheads("train", search(task), "name=high"), "scores 'high': expected a number for each answer")


# --- data -------------------------------------------------------------------------------------------------------------


def test_columns_by_name_and_negatives_of_every_form(search: Callable[..., Path], toy_data: Path) -> None:
    csv = "anchor,positive,negative_1,negative_2\nthe dog,dog,cat,tea\nthe cat,cat,,film\nthe tea,tea,,\nfour,4,5,\n"
    (toy_data / "anchors.csv").write_text(csv)
    write_rows(
        toy_data / "no-negatives.jsonl", [{"anchor": "a", "positive": "b"}, {"anchor": "c", "positive": "nan d"}]
    )
    task = {"train": "anchors.csv", "dev": "no-negatives.jsonl"}
    data = load_tasks(load_recipe(search(task)))["search"]
    assert (data.task.kind.name, data.task.columns.text) == ("similarity-search", ("anchor", "positive"))
    assert data.train.negatives is not None
    assert [joined.split("\x1f") for joined in data.train.negatives] == [["cat", "tea"], ["film"], [""], ["5"]]
    assert len(data.dev) == 2
    write_rows(toy_data / "bad.jsonl", [{"query": "a", "positive": "b", "negatives": ["c", 4]}])
    check_refused(
        manyheads("train", search({"train": "bad.jsonl"})), "bad.jsonl:1: a list that is not of texts in column"
    )


def test_other_names_are_no_search_unless_the_recipe_says_so(search: Callable[..., Path], toy_data: Path) -> None:
    task = {"train": "near.tsv", "dev": "near.tsv", "kind": "similarity-search"}
    data = load_tasks(load_recipe(search(task)))["search"]
    assert data.task.columns.text == ("sentence1", "sentence2")
    del task["kind"]
    assert load_tasks(load_recipe(search({**task, "range": [0, 5]})))["search"].task.kind.name == "regression"


@pytest.mark.slow
def test_the_check_finds_wrong_answers_that_are_right(search: Callable[..., Path], toy_data: Path) -> None:
    rows = [a_row(number) for number in range(24)]
    rows.append({"query": "the tea", "positive": "the tea", "negatives": []})
    rows.append({"query": rows[0]["query"], "positive": "red tea", "negatives": [rows[0]["positive"]]})
    write_rows(toy_data / "train.jsonl", rows)
    checked = manyheads("check", search())
    assert checked.returncode == 0, checked.stderr
    assert "1 of 26 rows of train has a query as its own answer." in checked.stdout
    assert "1 of 26 rows of train has a wrong answer that is right for the query." in checked.stdout
    assert "train.jsonl:26: «one men is blue»" in checked.stdout


# --- refusals ---------------------------------------------------------------------------------------------------------


def refused_combinations() -> list[tuple[dict[str, Any], str]]:
    """The rows of the table in docs/retrieval.md: what a recipe says, and a part of what it is told."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "retrieval.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]*)` \| `(.*)` \|$", page, re.M)
    assert len(rows) > 10
    return [(yaml.safe_load("{" + settings + "}"), reason) for settings, reason in rows]


@pytest.mark.slow
def test_every_refusal_of_the_table_is_one(search: Callable[..., Path]) -> None:
    for settings, reason in refused_combinations():
        top = {key: settings.pop(key) for key in ("regularise",) if key in settings}
        told = faults_of(search({"kind": "similarity-search", **settings}, **top))
        assert reason in told, (settings, top, told)


def faults_of(file: Path) -> str:
    try:
        assemble(load_recipe(file), Reporter(quiet=True))
    except UserError as fault:
        return str(fault)
    return "nothing"


@pytest.mark.slow
def test_what_embed_refuses(search: Callable[..., Path], toy_data: Path) -> None:
    recipe, run = search(training={"epochs": 1, "batch_size": 12}), toy_data / "runs" / "toy"
    assert manyheads("train", recipe).returncode == 0
    file = toy_data / "dev.jsonl"
    check_refused(manyheads("embed", run, file), "embed takes one text column, found none. Columns: query, positive")
    check_refused(manyheads("embed", run, file, "--text-column", "query", "--to", "a.csv"), "ends in .npy or .parquet")
    check_refused(manyheads("embed", run, file, "--text-column", "query", "--width", "99"), "have 32 numbers, found 99")
    check_refused(manyheads("embed", run, file, "--text-column", "query", "--task", "mood"), "no task 'mood'")
    assert not list(toy_data.glob("*.npy")) + list(toy_data.glob(".*.new"))
    write_rows(toy_data / "bad.jsonl", [{"text": "a"}, {"text": ""}])
    check_refused(manyheads("embed", run, toy_data / "bad.jsonl"), "bad.jsonl:2: empty text in column 'text'")
    check_refused(manyheads("export", run), "kind 'similarity-search' gives vectors", "--to sentence-transformers")
    exported = manyheads("export", run, "--to", "cross-encoder")
    check_refused(exported, "cannot be exported so")
