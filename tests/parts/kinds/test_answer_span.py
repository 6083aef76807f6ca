"""Answers in a text, from training to spans of the original text."""

from __future__ import annotations

import collections
import json
import re
import string
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from answer_data import answer_rows
from building import a_task, toy_model
from choice_data import write_rows
from command import check_refused, manyheads
from manyheads import Predictor, load_recipe
from manyheads.config.part import PartConfig
from manyheads.console import Reporter
from manyheads.data import answers as compared
from manyheads.data.answers import AnswerColumns, to_codes, write_answers
from manyheads.data.chunk import Chunk
from manyheads.data.labels import LabelReader
from manyheads.data.table import Columns
from manyheads.data.words import TextWords
from manyheads.errors import UserError
from manyheads.inference.predict import predict_tasks
from manyheads.inference.texts import dataset_of_texts
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.kinds.answer_span import best_span
from manyheads.parts.metrics import score
from manyheads.storage.ragged import Ragged
from manyheads.tasks.load import load_tasks
from manyheads.tasks.task import Task
from manyheads.training.setup import assemble
from running_server import RunningServer

SEARCH = LabelReader("answer-span")
COLUMNS = Columns(("question", "context"), "answers", None, answers=AnswerColumns())


def search_task(**parts: Any) -> Task:
    return a_task(labels=SEARCH, columns=COLUMNS, **{"pooling": "words", "loss": "span-cross-entropy", **parts})


@pytest.fixture
def finding(recipe_file: Callable[..., Path], toy_data: Path) -> Callable[..., Path]:
    write_rows(toy_data / "qa.jsonl", answer_rows(300, 0))
    write_rows(toy_data / "qa-dev.jsonl", answer_rows(60, 1))

    def make(task: dict[str, Any] | None = None, **changes: Any) -> Path:
        tasks = {"find": {"train": "qa.jsonl", "dev": "qa-dev.jsonl", **(task or {})}}
        training = {"epochs": 8, "batch_size": 8, "learning_rate": 5e-3}
        return recipe_file(**{"tasks": tasks, "training": training, **changes})

    return make


def labels_of(rows: list[list[tuple[int, str]]]) -> Ragged:
    return Ragged.from_rows([to_codes(json.dumps(row)) for row in rows], np.int64)


def found(rows: list[tuple[float, str]]) -> Ragged:
    """Predictions: the share of no answer, and an answer."""
    return Ragged.from_rows([[share, 0.5, 0, len(text), *to_codes(text)] for share, text in rows], np.float64)


# --- files ------------------------------------------------------------------------------------------------------------


def test_the_kind_is_seen_from_the_data(finding: Callable[..., Path], toy_data: Path) -> None:
    loaded = load_tasks(load_recipe(finding()))["find"]
    assert (loaded.task.labels.kind, loaded.task.encoding.name, loaded.task.pooling.name) == (
        "answer-span",
        "cross",
        "words",
    )
    rows = answer_rows(40, 2)
    lines = ["q,text,answer,answer_start"]
    for row in rows:
        text, start = (row["answers"][key] for key in ("text", "answer_start"))
        lines.append(f"{row['question']},  {row['context']},{''.join(text)},{start[0] + 2 if start else ''}")
    (toy_data / "qa.csv").write_text("\n".join(lines) + "\n")
    columns = {"train": "qa.csv", "dev": "qa.csv", "text": ["q", "text"], "label": "answer", "kind": "answer-span"}
    from_csv = load_tasks(load_recipe(finding(columns)))["find"].train
    assert isinstance(from_csv.labels, Ragged)
    expected = [list(zip(row["answers"]["answer_start"], row["answers"]["text"], strict=True)) for row in rows]
    assert [compared.read_answers(codes) for codes in from_csv.labels] == expected, "without the spaces before a text"


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ({"text": ["dog"], "answer_start": [0]}, "answer 'dog' does not stand at character 0 of the text"),
        ({"text": ["dog"], "answer_start": []}, "1 answers with 0 starts"),
        ([{"text": "dog"}], "expected the number of an answer's first character, found None"),
        ({"text": [" "], "answer_start": [3]}, "an answer is empty"),
        ("dog", "answers are {text: […], answer_start: […]}, found dog"),
    ],
)
def test_answers_that_do_not_stand_in_the_text_are_bad_rows(cell: Any, reason: str) -> None:
    chunk = Chunk(
        ["context", "answers"], [["the dog", cell], ["the dog", {"text": [], "answer_start": []}]], [1, 2], []
    )
    written = write_answers(chunk, "context", "answers", AnswerColumns())
    assert written.cells == [None, ["the dog", "[]"]]
    assert reason in written.faults[0]


# --- from training to predictions -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_answers_are_learnt_and_found_in_the_text(finding: Callable[..., Path], toy_data: Path) -> None:
    result = manyheads("train", finding())
    assert result.returncode == 0, result.stderr
    run = toy_data / "runs" / "toy"
    metrics = json.loads((run / "metrics.json").read_text())["dev"]["metrics"]
    assert metrics["find"]["answer-f1"] > 0.8, "without reading the question about 0.5"
    assert json.loads(manyheads("evaluate", run, "--json").stdout)["dev"]["metrics"] == metrics

    rows = answer_rows(20, 5)
    odd = {"question": "the men ?", "context": " \u05d0 cafe\u0301 🙂\r\n very red dog\u0301 good \r\n"}
    predictor = Predictor.open(run / "best")
    given_texts = [(row["question"], f"\r\n {row['context']}") for row in rows] + [(odd["question"], odd["context"])]
    predictions = predictor.predict("find", given_texts)
    for (_, text), described in zip(given_texts, predictions, strict=True):
        if described["prediction"]:
            assert text[described["start"] : described["end"]] == described["prediction"]
            assert described["no_answer"] <= 0.5
        else:
            assert (described["start"], described["end"]) == (None, None)
        assert 0 < described["probability"] <= 1
    right = [
        described["prediction"] == "".join(row["answers"]["text"])
        for row, described in zip(rows, predictions, strict=False)
    ]
    assert sum(right) >= 15

    file = write_rows(toy_data / "new.jsonl", [{**row, "context": f"\r\n {row['context']}"} for row in rows])
    for options in (("--task", "find"), ("--all",)):
        lines = json.loads(manyheads("predict", run, file, "--json", *options).stdout)
        described = [line["find"] if "--all" in options else line for line in lines]
        assert [line["start"] for line in described] == [line["start"] for line in predictions[:-1]]
    csv = (run / "predictions" / "find-dev.csv").read_text().splitlines()
    assert csv[0] == "id,prediction"
    assert len(csv) == 61
    check_refused(manyheads("export", run), "kind 'answer-span' has a prediction per token")
    assert manyheads("report", run).returncode == 0
    assert ">in the text<" in (run / "report.html").read_text()
    with RunningServer(run) as server:
        answer = server.client.post("/v1/predict", json={"inputs": [list(given_texts[0])]}).json()
        served = answer["predictions"][0]["tasks"]["find"]
        assert (served["prediction"], served["start"]) == (predictions[0]["prediction"], predictions[0]["start"])


@pytest.mark.slow
def test_a_frozen_probe_and_a_check_of_answers(finding: Callable[..., Path], toy_data: Path) -> None:
    rows = answer_rows(40, 6)
    write_rows(toy_data / "qa.jsonl", rows)
    checked = manyheads("check", finding())
    none = sum(not row["answers"]["text"] for row in rows)
    assert f"{none} of 40 questions have no answer in their text" in checked.stdout
    result = manyheads(
        "train", finding(defaults=None, training={"epochs": 1, "batch_size": 8}), "encoder.max_length=14"
    )
    assert result.returncode == 0, result.stderr
    assert "texts are read in windows of 14" in result.stderr
    assert "frozen encoder + linear model" in result.stderr


# --- windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("longest", [8, 11, 14, 64])
def test_every_token_is_answered_for_once(toy_encoder: Path, longest: int) -> None:
    task = search_task()
    model = toy_model(toy_encoder, [task])
    model.max_length = longest
    texts = ["the red dog runs . a cat sleeps . the unseenword was very good", "red dog"]
    data = TaskTokens(
        task, dataset_of_texts([("men ?", text) for text in texts], 2, "a test"), model.tokenizer, cached=False
    )
    for row in range(2):
        sequences = data.inputs(model, row)
        assert max(len(sequence.ids) for sequence in sequences) <= longest
        read = [sequence.ids[sequence.words] for sequence in sequences]  # type: ignore[index]
        start = model.tokenizer.special_tokens.start
        assert np.concatenate(read).tolist() == [*start.tolist(), *data.texts[1][row].tolist()]
    assert (len(data.inputs(model, 0)) > 1) == (longest < 64)
    predicted = predict_tasks(model, {"task": data}, 1000)["task"]
    for text, row in zip(texts, predicted, strict=True):
        start, end = int(row[2]), int(row[3])
        assert text[start:end] == compared.from_codes(row[4:])


def test_labels_are_the_places_of_first_and_last_tokens(toy_encoder: Path) -> None:
    task = search_task()
    model = toy_model(toy_encoder, [task])
    text = "the \U0001f642 unseenword, the re\u0301d dog"
    examples = dataset_of_texts([("men ?", text)] * 3, 2, "a test")
    rows = [[(text.index("unseen"), "unseenword")], [], [(text.index("re\u0301d"), "re\u0301d dog")]]
    examples.labels = labels_of(rows)
    data = TaskTokens(task, examples, model.tokenizer, cached=False)
    offsets = data.texts[1].offsets_of(0)
    assert offsets is not None
    assert data.labels is not None
    for answers, (first, last) in zip(rows, data.labels.tolist(), strict=True):
        if not answers:
            assert (first, last) == (0, 0)
            continue
        assert text[offsets[first - 1, 0] : offsets[last - 1, 1]] == answers[0][1]


# --- loss, best span, threshold ---------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 1000))
def test_the_loss_is_that_of_each_row_alone(counts: list[int], seed: int) -> None:
    drawn = torch.Generator().manual_seed(seed)
    outputs = torch.randn(sum(counts), 2, generator=drawn, dtype=torch.float64) * 3
    labels = torch.tensor([[seed % count, (seed // 7) % count] for count in counts])
    loss = PartConfig(name="span-cross-entropy").build("losses", search_task())
    values = loss(outputs, labels, torch.tensor(counts)).tolist()
    logs = loss.predict(outputs, torch.tensor(counts))
    first = 0
    for count, (start, end), value in zip(counts, labels.tolist(), values, strict=True):
        own = outputs[first : first + count].numpy()
        expected = own - np.log(np.exp(own).sum(axis=0))
        assert value == pytest.approx(-(expected[start, 0] + expected[end, 1]) / 2)
        assert logs[first : first + count].numpy() == pytest.approx(expected)
        first += count


@given(st.integers(1, 9), st.integers(1, 10), st.integers(0, 1000))
def test_the_best_span_is_that_of_all_that_are_allowed(tokens: int, longest: int, seed: int) -> None:
    logs = np.random.default_rng(seed).normal(size=(tokens, 2))
    allowed = {}
    for first in range(tokens):
        for last in range(first, min(tokens, first + longest)):
            allowed[first, last] = logs[first, 0] + logs[last, 1]
    first, last, best = best_span(logs, longest)
    assert best == pytest.approx(max(allowed.values()))
    assert allowed[first, last] == best


def test_no_answer_is_the_share_beside_the_best_span() -> None:
    task = search_task()
    p = np.log([[0.1, 0.3], [0.6, 0.1], [0.3, 0.6]])
    read = task.kind.read_out(Ragged.from_rows([p], np.float64), task, [TextWords("red dog", [(0, 3), (4, 7)])])
    assert read[0][:4].tolist() == pytest.approx([0.03 / (0.03 + 0.36), 0.36, 0, 7])
    assert task.kind.decode(read, task) == ["red dog"]
    assert task.kind.decode(read, replace(task, thresholds=(0.05,))) == [""]


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.1, 0.4, 0.6, 0.9, 1.0]), st.booleans(), st.booleans()), min_size=1, max_size=8
    )
)
def test_the_threshold_is_the_best_of_all(rows: list[tuple[float, bool, bool]]) -> None:
    task = search_task()
    labels = labels_of([[(0, "dog")] if has_answer else [] for _, has_answer, _ in rows])
    predicted = found([(share, "dog" if right else "cat") for share, _, right in rows])
    fitted = task.kind.fit_calibration(predicted, labels, task)
    if all(has_answer for _, has_answer, _ in rows):
        assert fitted == {}
        return

    def mean_f1(threshold: float) -> float | None:
        metric = (PartConfig(name="answer-f1"),)
        return score(replace(task, metrics=metric, thresholds=(threshold,)), predicted, labels)["answer-f1"]

    candidates = [mean_f1(threshold) for threshold in (1e-6, 0.05, 0.25, 0.5, 0.75, 0.95, 1 - 1e-6)]
    assert mean_f1(fitted["thresholds"][0]) == pytest.approx(max(value for value in candidates if value is not None))


# --- SQuAD's script, written after its rules --------------------------------------------------------------------------


def reference_tokens(text: str) -> list[str]:
    lowered = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", lowered).split()


def reference_scores(predicted: str, answers: list[str]) -> tuple[float, float]:
    """(exact, F1): references that normalise to nothing count only where there is no other."""
    references = [reference_tokens(answer) for answer in answers if reference_tokens(answer)] or [[]]
    tokens = reference_tokens(predicted)
    scores = []
    for reference in references:
        same = sum((collections.Counter(tokens) & collections.Counter(reference)).values())
        if not tokens or not reference:
            scores.append(float(tokens == reference))
        elif same == 0:
            scores.append(0.0)
        else:
            precision, recall = same / len(tokens), same / len(reference)
            scores.append(2 * precision * recall / (precision + recall))
    return max(float(tokens == reference) for reference in references), max(scores)


ANSWER = st.text(alphabet="aAn the.,'é-Red", max_size=12) | st.text(max_size=8)


@given(ANSWER, st.lists(ANSWER, max_size=3))
def test_exact_match_and_f1_are_squads(predicted: str, answers: list[str]) -> None:
    exact, f1 = reference_scores(predicted, answers)
    assert compared.exact_match(predicted, answers) == exact
    assert compared.f1(predicted, answers) == pytest.approx(f1)
    task = search_task(metrics=(PartConfig(name="answer-f1"), PartConfig(name="answer-exact-match")))
    values = score(task, found([(0.0, predicted)]), labels_of([[(0, answer) for answer in answers]]))
    assert values == {"answer-f1": pytest.approx(f1), "answer-exact-match": exact}


def test_squads_scores_by_hand() -> None:
    assert compared.exact_match("The U.S.", ["us"]) == 1
    assert compared.f1("the red dog", ["a dog", "red cat sleeps"]) == pytest.approx(2 / 3)
    assert (compared.f1("", []), compared.f1("dog", [])) == (1, 0)


# --- what is refused --------------------------------------------------------------------------------------------------


def refused_combinations() -> list[tuple[dict[str, Any], str]]:
    """The rows of the table in docs/answering.md: what a recipe says, and a part of what it is told."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "answering.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]*)` \| `(.*)` \|$", page, re.M)
    assert len(rows) > 10
    return [(yaml.safe_load("{" + settings + "}"), reason) for settings, reason in rows]


@pytest.mark.slow
def test_every_refusal_of_the_table_is_one(finding: Callable[..., Path]) -> None:
    for settings, reason in refused_combinations():
        with pytest.raises(UserError) as refusal:
            assemble(load_recipe(finding(settings)), Reporter(quiet=True))
        assert reason in str(refusal.value), (settings, str(refusal.value))
