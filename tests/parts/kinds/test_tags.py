"""Tags of words, from training to spans in the original text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from building import TAGS, a_task
from command import check_refused, manyheads
from manyheads import Predictor, load_recipe
from manyheads.config.part import PartConfig
from manyheads.console import Reporter
from manyheads.data.labels import LabelReader
from manyheads.errors import UserError
from manyheads.inference.texts import dataset_of_texts
from manyheads.model.folder import load_model
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.metrics import score
from manyheads.parts.samplers import Batch
from manyheads.parts.scalarizers import Sum
from manyheads.storage.ragged import Ragged
from manyheads.tasks.load import load_tasks
from manyheads.tokens.tokenizer import Tokenizer
from manyheads.training.gradients.backward import Backward
from manyheads.training.gradients.combination import Combination
from manyheads.training.setup import assemble
from running_server import RunningServer

AVERAGE_OVER_WORDS = {"name": "tag-cross-entropy", "average": "word"}
TYPE_OF = {"dog": "ANIMAL", "cat": "ANIMAL", "film": "WORK", "book": "WORK"}


def sentence(number: int, longest: int = 3) -> tuple[list[str], list[str]]:
    """'the [red dog] runs', several times over; which words are entities the words themselves tell."""
    words: list[str] = []
    tags: list[str] = []
    for part in range(1 + number % longest):
        noun = list(TYPE_OF)[(number + part) % 4]
        words += ["the", *(["red"] if (number + part) % 3 == 0 else []), noun, ("runs", "sleeps")[number % 2]]
        inside = ["B", "I"] if (number + part) % 3 == 0 else ["B"]
        tags += ["O", *(f"{prefix}-{TYPE_OF[noun]}" for prefix in inside), "O"]
    return words, tags


@pytest.fixture
def tagging(recipe_file: Callable[..., Path], toy_data: Path) -> Callable[..., Path]:
    """Tags and a class of the same rows."""
    rows = []
    for number in range(64):
        words, tags = sentence(number)
        rows.append({"tokens": words, "tags": tags, "length": "long" if len(words) > 5 else "short"})
    (toy_data / "tags.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def make(task: dict[str, Any] | None = None, **changes: Any) -> Path:
        tasks = {
            "names": {"train": "tags.jsonl", "dev": "tags.jsonl", **(task or {})},
            "length": {"train": "tags.jsonl", "dev": "tags.jsonl", "text": "tokens", "label": "length"},
        }
        training = {"epochs": 12, "batch_size": 8, "learning_rate": 5e-3}
        return recipe_file(**{"tasks": tasks, "training": training, **changes})

    return make


def test_the_kind_is_seen_from_the_data_and_rows_are_shared(tagging: Callable[..., Path]) -> None:
    loaded = load_tasks(load_recipe(tagging()))
    names = loaded["names"].task
    assert (names.labels.kind, names.labels.scheme, names.pooling.name) == ("tags", "BIO", "words")
    assert names.labels.names == ("O", "B-ANIMAL", "I-ANIMAL", "B-WORK", "I-WORK")
    assert loaded["length"].task.labels.kind == "classification"
    assert loaded["names"].row_group == loaded["length"].row_group == "names+length"


def spans_of(words: list[str], tags: list[str]) -> list[tuple[int, int, str]]:
    """By hand, of words with one space between them."""
    spans: list[tuple[int, int, str]] = []
    start = 0
    for word, tag in zip(words, tags, strict=True):
        if tag[0] == "B":
            spans.append((start, start + len(word), tag[2:]))
        elif tag[0] == "I":
            spans[-1] = (spans[-1][0], start + len(word), tag[2:])
        start += len(word) + 1
    return spans


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "longest"),
    [
        (
            {"loss": {"name": "tag-cross-entropy", "average": "word"}, "pooling": {"name": "words", "pieces": "all"}},
            None,
        ),
        ({"loss": "crf"}, 8),
    ],
    ids=["all pieces", "crf in windows"],
)
def test_tags_are_learnt_and_found_in_the_text(
    tagging: Callable[..., Path], toy_data: Path, task: dict[str, Any], longest: int | None, toy_encoder: Path
) -> None:
    changes: dict[str, Any] = {}
    if longest:
        changes["encoder"] = {"name": str(toy_encoder), "max_length": longest}
    result = manyheads("train", tagging(task, **changes))
    assert result.returncode == 0, result.stderr
    assert ("texts are read in windows of 8" in result.stderr) == bool(longest)
    run = toy_data / "runs" / "toy"
    metrics = json.loads((run / "metrics.json").read_text())["dev"]
    assert metrics["metrics"]["names"]["entity-f1"] > 0.9
    evaluated = manyheads("evaluate", run, "--json")
    assert json.loads(evaluated.stdout)["dev"]["metrics"] == metrics["metrics"]

    predictor = Predictor.open(run / "best")
    lists = [sentence(number)[0] for number in range(12)]
    of_lists = predictor.predict("names", lists)
    of_texts = predictor.predict("names", [f"  {' '.join(words)}" for words in lists])
    right = 0
    for words, given_words, given_text in zip(lists, of_lists, of_texts, strict=True):
        assert [word for word, _ in given_words["tagged"]] == words
        assert given_words["tagged"] == given_text["tagged"]
        found = [(span["start"], span["end"], span["label"]) for span in given_words["prediction"]]
        assert found == spans_of(words, [tag for _, tag in given_words["tagged"]])
        for span, moved in zip(given_words["prediction"], given_text["prediction"], strict=True):
            assert (moved["start"], moved["end"]) == (span["start"] + 2, span["end"] + 2), "of the text as it was given"
            assert " ".join(words)[span["start"] : span["end"]] == span["text"]
            assert 0 < span["probability"] <= 1
        right += [tag for _, tag in given_words["tagged"]] == sentence(lists.index(words))[1]
    assert right >= 11

    odd = "\u05d0 caf\u00e9 🙂\r\n the red dog\u0301, e\u0301 “cat”."
    everything = predictor.predict_all([odd])
    for span in everything["names"][0]["prediction"]:
        assert odd[span["start"] : span["end"]] == span["text"]
    assert "".join(word for word, _ in everything["names"][0]["tagged"]) == "".join(odd.split())

    file = toy_data / "new.jsonl"
    file.write_text("".join(json.dumps({"tokens": words}) + "\n" for words in lists))
    of_file = json.loads(manyheads("predict", run / "best", file, "--task", "names", "--json").stdout)
    assert [line["prediction"] for line in of_file] == [
        [pytest.approx(span) for span in line["prediction"]] for line in of_lists
    ]
    csv = (run / "predictions" / "names-dev.csv").read_text().splitlines()
    assert csv[0] == "id,prediction"
    assert '""label"": ""' in csv[1]
    shown = manyheads("predict", run / "best", "--task", "names", "--text", "the red dog runs").stdout
    assert shown == "red dog [ANIMAL 4–11]\n"

    assert manyheads("report", run).returncode == 0
    page = (run / "report.html").read_text()
    assert "Task names" in page
    assert ">ANIMAL<" in page

    with RunningServer(run) as server:
        inputs = [{"tokens": lists[3]}, " ".join(lists[3])]
        answer = server.client.post("/v1/predict", json={"inputs": inputs, "tasks": ["names"]}).json()
        for line in answer["predictions"]:
            found = line["tasks"]["names"]["prediction"]
            assert found == [pytest.approx(span, abs=1e-4) for span in of_lists[3]["prediction"]]
            assert not line["truncated"]
    if task["loss"] == "crf":
        model, _ = load_model(run / "best")
        assert model.head("names").loss.transitions.abs().max() > 0  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_resumed_training_is_the_same(tagging: Callable[..., Path], toy_data: Path) -> None:
    from test_word_tags import KILLED_AT_STEP_8

    training = {"epochs": 2, "batch_size": 8}
    recipe = tagging({"loss": "crf"}, training=training)
    assert manyheads("train", recipe, "name=whole").returncode == 0
    assert manyheads("train", recipe, "name=parted", before=KILLED_AT_STEP_8).returncode == 9
    runs = toy_data / "runs"
    resumed = manyheads("resume", runs / "parted")
    assert resumed.returncode == 0, resumed.stderr
    for name in ("best/heads.safetensors", "best/model.safetensors", "dev.safetensors"):
        assert (runs / "whole" / name).read_bytes() == (runs / "parted" / name).read_bytes()


def refused_combinations() -> list[tuple[dict[str, Any], str]]:
    """The rows of the table in docs/tagging.md: what a recipe says, and a part of what it is told."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "tagging.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]*)` \| `(.*)` \|$", page, re.M)
    assert len(rows) > 10
    return [(yaml.safe_load("{" + settings + "}"), reason) for settings, reason in rows]


@pytest.mark.slow
def test_every_refusal_of_the_table_is_one(tagging: Callable[..., Path], toy_data: Path) -> None:
    for settings, reason in refused_combinations():
        top = {key: settings.pop(key) for key in ("distill", "teachers", "combine", "regularise") if key in settings}
        recipe = load_recipe_faults(tagging(settings, **top))
        assert reason in recipe, (settings, top, recipe)


def load_recipe_faults(file: Path) -> str:
    """What is said where a recipe is refused before anything is written."""
    try:
        recipe = load_recipe(file)
        assemble(recipe, Reporter(quiet=True))
    except UserError as fault:
        return str(fault)
    return "nothing"


def test_tags_are_no_class_of_a_text(tagging: Callable[..., Path]) -> None:
    tasks = {"length": {"train": "tags.jsonl", "text": "tokens", "label": "length", "loss": "crf"}}
    check_refused(manyheads("train", tagging(tasks=tasks)), "'crf' needs tags of words, this task is a classification.")
    tasks["length"].update(loss="cross-entropy", scheme="BIO")
    check_refused(manyheads("train", tagging(tasks=tasks)), "'scheme' is about tags of words")


# --- losses and metrics -----------------------------------------------------------------------------------------------


def test_cross_entropy_of_words_by_hand() -> None:
    task = a_task(labels=TAGS, counts=(6, 2, 0))
    outputs = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]], dtype=torch.float64))
    labels = torch.tensor([1, 1])

    def values(**options: Any) -> list[float]:
        loss = PartConfig(name="tag-cross-entropy", options=options).build("losses", task)
        return loss(outputs, labels).tolist()

    assert values() == pytest.approx([-np.log(0.25), -np.log(0.8)])
    smooth = [0.7 * -np.log(p[1]) - 0.1 * np.log(p).sum() for p in np.exp(outputs.numpy())]
    assert values(label_smoothing=0.3) == pytest.approx(smooth)
    assert values(class_weights="balanced") == pytest.approx([-np.log(0.25) * 9 / 6, -np.log(0.8) * 9 / 6])


def chunks(tags: list[str]) -> set[tuple[int, int, str]]:
    """Entities as seqeval's default mode counts them, written after its rules: a chunk starts at B, and at I after O or
    another type; it ends before O, before B and before another type."""
    found, start = set(), None
    for number, tag in enumerate([*tags, "O"]):
        before = tags[number - 1] if number else "O"
        prefix, _, kind = tag.partition("-")
        prefix_before, _, kind_before = before.partition("-")
        if prefix_before != "O" and (prefix in "OB" or kind != kind_before) and start is not None:
            found.add((start, number, kind_before))
        if prefix == "B" or (prefix == "I" and (prefix_before == "O" or kind != kind_before)):
            start = number
    return found


NAMES = ("O", "B-x", "I-x", "B-y", "I-y")
SENTENCE = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), min_size=1, max_size=8)


@given(st.lists(SENTENCE, min_size=1, max_size=6))
def test_entity_metrics_are_seqevals(sentences: list[list[tuple[str, str]]]) -> None:
    reader = LabelReader("tags", NAMES, {name: index for index, name in enumerate(NAMES)}, scheme="BIO")
    metrics = ("entity-f1", "entity-precision", "entity-recall", "entity-macro-f1", "entity-f1-per-type")
    task = a_task(labels=reader, metrics=tuple(PartConfig(name=name) for name in (*metrics, "token-accuracy")))
    truth = [[label for label, _ in words] for words in sentences]
    guess = [[predicted for _, predicted in words] for words in sentences]
    labels = Ragged.from_rows([[NAMES.index(tag) for tag in tags] for tags in truth], np.int64)
    predicted = Ragged.from_rows([np.eye(5)[[NAMES.index(tag) for tag in tags]] for tags in guess], np.float64)
    counts = {kind: np.zeros(3) for kind in "xy"}
    for true_tags, tags in zip(truth, guess, strict=True):
        true_chunks, found = chunks(true_tags), chunks(tags)
        for kind in "xy":
            groups = (true_chunks & found, found, true_chunks)
            counts[kind] += [sum(chunk[2] == kind for chunk in group) for group in groups]
    right, found_count, true_count = sum(counts.values())
    expected = {
        "entity-f1": 2 * right / (found_count + true_count) if found_count + true_count else None,
        "entity-precision": right / found_count if found_count else None,
        "entity-recall": right / true_count if true_count else None,
    }
    for kind, (r, f, t) in counts.items():
        expected[f"entity-f1-per-type/{kind}"] = 2 * r / (f + t) if f + t else None
    defined = [expected[f"entity-f1-per-type/{kind}"] for kind in "xy"]
    seen = [value for value in defined if value is not None]
    expected["entity-macro-f1"] = sum(seen) / len(seen) if seen else None
    pairs = [pair for words in sentences for pair in words]
    expected["token-accuracy"] = sum(label == tag for label, tag in pairs) / len(pairs)
    values = score(task, predicted, labels)
    assert values == {key: value if value is None else pytest.approx(value) for key, value in expected.items()}
    seqeval = pytest.importorskip("seqeval.metrics") if _has_seqeval() else None
    if seqeval is not None and found_count and true_count:
        assert values["entity-f1"] == pytest.approx(seqeval.f1_score(truth, guess))
        assert values["entity-precision"] == pytest.approx(seqeval.precision_score(truth, guess))
        assert values["entity-recall"] == pytest.approx(seqeval.recall_score(truth, guess))


def _has_seqeval() -> bool:
    from importlib.util import find_spec

    return find_spec("seqeval") is not None


# --- training ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_student_learns_tags_of_its_teachers_also_of_texts_without_labels(
    tagging: Callable[..., Path], toy_data: Path
) -> None:
    texts = [{"tokens": ["a", *sentence(number)[0]]} for number in range(20)]
    (toy_data / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    task = {"unlabelled": "texts.jsonl"}
    recipe = tagging(task, training={"epochs": 6, "batch_size": 8, "learning_rate": 5e-3}, distill={"gold": 0.0})
    result = manyheads("distill", recipe)
    assert result.returncode == 0, result.stderr
    metrics = json.loads((toy_data / "runs" / "toy" / "metrics.json").read_text())["dev"]["metrics"]
    assert metrics["names"]["entity-f1"] > 0.8, "the student saw no label"
    refused = tagging({"loss": "crf"}, distill={"gold": 0.0})
    check_refused(manyheads("distill", refused), "'crf' has no formula for what a teacher predicts; take 'tag-cross")


@pytest.mark.slow
@pytest.mark.parametrize("average", ["step", "examples", "batch"])
@pytest.mark.parametrize("loss", ["tag-cross-entropy", "crf"])
def test_means_over_words_are_over_all_words_of_the_step(tagging: Callable[..., Path], average: Any, loss: str) -> None:
    """In passes of a few tokens, as in one: Σ of the words' losses / their count, times the task's share."""
    recipe = load_recipe(tagging({"loss": {"name": loss, "average": "word"}}))
    setup = assemble(recipe, Reporter(quiet=True))
    model, data = setup.model.double().eval(), setup.datasets.train
    rounds = [[Batch("names", np.arange(5)), Batch("length", np.arange(3))], [Batch("names", np.arange(5, 16))]]
    gradients = []
    for tokens_per_pass in (20, 10_000):
        model.zero_grad()
        backward = Backward(model, data, tokens_per_pass, nullcontext)
        combination = Combination(Sum(["names", "length"]), average=average)
        step = backward.step(rounds, combination)
        gradients.append({name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None})
    for name, gradient in gradients[0].items():
        assert torch.allclose(gradient, gradients[1][name], atol=1e-10), name
    totals = []
    with torch.no_grad():
        for rows in (range(5), range(5, 16)):
            packed = model.pack([("names", [data["names"].inputs(model, row) for row in rows])])
            (outputs,) = model.read(model.embed(packed), packed)
            labels, words = data["names"].word_labels(list(rows)), packed.words[0]
            assert words is not None
            given_loss: Any = model.head("names").loss
            values = given_loss(outputs, labels, words.counts) if loss == "crf" else given_loss(outputs, labels)
            totals.append((values.sum().item(), len(labels)))
    means = [total / words for total, words in totals]
    over_all = sum(total for total, _ in totals) / sum(words for _, words in totals)
    expected = {"step": over_all, "examples": over_all * 16 / 19, "batch": sum(means) / 2}
    assert step.losses["names"] == pytest.approx(expected[average], rel=1e-9)


def test_labels_of_all_pieces(toy_encoder: Path) -> None:
    """'unseenword' is cut into many pieces, of which the first begins the entity."""
    task = replace(a_task(labels=TAGS), pooling=PartConfig(name="words", options={"pieces": "all"}))
    examples = dataset_of_texts([["the", "unseenword", "dog"], ["dog"]], 1, "a test", words=True)
    examples.labels = Ragged.from_rows([[0, 1, 2], [1]], np.int64)
    data = TaskTokens(task, examples, Tokenizer(toy_encoder), cached=False)
    assert data.words is not None
    firsts = data.words[0].tolist()
    assert firsts[2] - firsts[1] > 1
    pieces = data.with_all_pieces()
    assert pieces.words is not None
    assert [row.tolist() for row in pieces.words] == [list(range(firsts[2] + 1)), [0]]
    assert pieces.word_labels([0, 1]).tolist() == [0, 1, *[2] * (firsts[2] - firsts[1] - 1), 2, 1]
    assert pieces.count_words(np.array([0, 1])) == firsts[2] + 2
