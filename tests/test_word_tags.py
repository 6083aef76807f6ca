"""A token-level kind from a user's file: trained beside a classification, evaluated, resumed, saved, predicted with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import check_refused, manyheads
from manyheads import Predictor, load_recipe, registry
from manyheads.checks.check import check_data
from manyheads.config import plugins
from manyheads.inference.prediction_files import read_dev_predictions
from manyheads.registry import parts
from manyheads.storage.ragged import Ragged

PART_FILE = Path(__file__).parent / "word_tags.py"
TAG_OF = {"the": "D", "a": "D", "dog": "N", "cat": "N", "film": "N", "runs": "V", "sleeps": "V", "unseenword": "N"}


@pytest.fixture(autouse=True)
def _forget_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    parts()
    monkeypatch.setattr(registry, "_parts", dict(registry._parts))
    monkeypatch.setattr(plugins, "_imported", {})


@pytest.fixture
def tagging_recipe(recipe_file: Callable[..., Path], toy_data: Path) -> Callable[..., Path]:
    """The toy sentences' classification, and tags for sentences of two to six words, one of them of many pieces."""
    rows = ["id,sentence,tags"]
    for number in range(48):
        nouns = ["dog", "cat", "film", "unseenword"]
        words = [("the", "a")[number % 2], nouns[number % 4]]
        if number % 3:
            words.append(("runs", "sleeps")[number % 2])
        if number % 5 == 0:
            words += ["the", nouns[(number + 1) % 4], "sleeps"]
        rows.append(f"t{number},{' '.join(words)},{' '.join(TAG_OF[word] for word in words)}")
    (toy_data / "tags.csv").write_text("\n".join(rows) + "\n")
    shutil.copy(PART_FILE, toy_data / "word_tags.py")

    def make(**changes: Any) -> Path:
        tags = {"train": "tags.csv", "text": ["sentence"], "label": "tags", "kind": "word-tags"}
        settings = {"tasks": {"mood": {"train": "mood.csv"}, "tags": tags}, "imports": ["word_tags.py"], **changes}
        return recipe_file(**settings)

    return make


KILLED_AT_STEP_8 = """
import os
from manyheads.training.gradients.backward import Backward
take_step, taken = Backward.step, []
def step(*given, **more):
    taken.append(1)
    return os._exit(9) if len(taken) == 8 else take_step(*given, **more)
Backward.step = step
"""
TRAINING = {"epochs": 6, "batch_size": 8, "learning_rate": 5e-3}


def test_the_check_counts_words(tagging_recipe: Callable[..., Path]) -> None:
    found = check_data(load_recipe(tagging_recipe()))
    messages = [one.message for one in found if (one.task, one.kind) == ("tags", "balance")]
    assert messages == ["Labels of train: 'D' 58 (37%), 'N' 58 (37%), 'V' 42 (27%)."]  # 48 + 10, 48 + 10, 32 + 10


@pytest.mark.slow
def test_words_are_tagged_from_training_to_prediction(tagging_recipe: Callable[..., Path], toy_data: Path) -> None:
    result = manyheads("train", tagging_recipe(training=TRAINING))
    assert result.returncode == 0, result.stderr
    run, own = toy_data / "runs" / "toy", ("--imports", toy_data / "word_tags.py")

    metrics = json.loads((run / "metrics.json").read_text())["dev"]
    assert metrics["metrics"]["tags"]["accuracy"] > 0.9  # the most frequent tag is 2 of 5 words
    tensors = read_dev_predictions(run / "dev.safetensors")
    labels, predictions = tensors["tags.labels"], tensors["tags.predictions"]
    assert isinstance(labels, Ragged)
    assert isinstance(predictions, Ragged)
    assert labels.lengths.tolist() == predictions.lengths.tolist()
    assert len(set(labels.lengths.tolist())) > 1
    correct = predictions.values.argmax(axis=1) == labels.values
    assert metrics["metrics"]["tags"]["accuracy"] == pytest.approx(correct.mean())
    assert metrics["examples"]["tags"] == len(labels)
    assert isinstance(tensors["mood.predictions"], np.ndarray)

    evaluated = manyheads("evaluate", run, "--json", *own)
    assert evaluated.returncode == 0, evaluated.stderr
    assert json.loads(evaluated.stdout)["dev"]["metrics"] == metrics["metrics"]

    labelled = toy_data / "labelled.csv"
    labelled.write_text("sentence,tags\nthe dog runs,D N V\na cat,D N\n")
    from_file = manyheads("evaluate", run / "best", labelled, "--json", *own)
    assert json.loads(from_file.stdout)["files"]["metrics"]["tags"]["accuracy"] == 1.0, from_file.stderr
    labelled.write_text("sentence,tags\nthe dog runs,D N V\na cat,D\n")
    check_refused(manyheads("evaluate", run / "best", labelled, *own), "labelled.csv:3: 1 labels for 2 words")

    rows = [line.split(",") for line in (run / "predictions" / "tags-dev.csv").read_text().splitlines()]
    texts = dict(line.split(",")[:2] for line in (toy_data / "tags.csv").read_text().splitlines())
    for example_id, tags in rows[1:]:
        assert len(tags.split()) == len(texts[example_id].split())

    copied = shutil.copytree(run / "best", toy_data / "elsewhere")
    sentences = ["the unseenword runs", "a cat", "the film sleeps the dog runs"]
    expected = [[TAG_OF[word] for word in sentence.split()] for sentence in sentences]
    found = manyheads("predict", copied, "--task", "tags", "--json", *own, *(f"--text={text}" for text in sentences))
    assert found.returncode == 0, found.stderr
    assert [line["prediction"] for line in json.loads(found.stdout)] == expected

    predictor = Predictor.open(copied, imports=[toy_data / "word_tags.py"])
    assert [line["prediction"] for line in predictor.predict("tags", sentences)] == expected
    both = predictor.predict_all(sentences)  # from one pass: the first of them asks for no words
    assert [line["prediction"] for line in both["tags"]] == expected
    moods = predictor.predict("mood", sentences)
    assert [line["probabilities"] for line in both["mood"]] == [pytest.approx(one["probabilities"]) for one in moods]

    report = manyheads("report", run, *own)
    assert report.returncode == 0, report.stderr
    assert "Single predictions of tags are not shown" in (run / "report.html").read_text()


@pytest.mark.slow
def test_a_resumed_training_is_the_same(tagging_recipe: Callable[..., Path], toy_data: Path) -> None:
    training = {**TRAINING, "epochs": 2}
    recipe = tagging_recipe(training=training, regularise=["smart"])
    assert manyheads("train", recipe, "name=whole").returncode == 0
    assert manyheads("train", recipe, "name=parted", before=KILLED_AT_STEP_8).returncode == 9
    runs = toy_data / "runs"
    resumed = manyheads("resume", runs / "parted")
    assert resumed.returncode == 0, resumed.stderr
    for name in ("heads.safetensors", "model.safetensors"):
        assert (runs / "whole" / "best" / name).read_bytes() == (runs / "parted" / "best" / name).read_bytes()
    assert (runs / "whole" / "dev.safetensors").read_bytes() == (runs / "parted" / "dev.safetensors").read_bytes()


def test_a_tag_too_few_is_refused_with_its_line(tagging_recipe: Callable[..., Path], toy_data: Path) -> None:
    recipe = tagging_recipe()
    file = toy_data / "tags.csv"
    lines = file.read_text().splitlines()
    lines[7] = "t6,the film,D"
    file.write_text("\n".join(lines) + "\n")
    check_refused(manyheads("train", recipe), "tags.csv:8: 1 labels for 2 words", "[label-count]")


@pytest.mark.parametrize(
    ("task", "pooling", "reason"),
    [("tags", "mean", "a vector per example"), ("mood", "words", "a vector per word")],
)
def test_a_pooling_of_the_other_sort_is_refused(
    tagging_recipe: Callable[..., Path], task: str, pooling: str, reason: str
) -> None:
    check_refused(
        manyheads("train", tagging_recipe(), f"tasks.{task}.pooling={pooling}"), f"'{pooling}' gives {reason}"
    )
