"""Multiple choice, from training to the probabilities of each row's candidates."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from building import a_task
from choice_data import choice_rows, write_rows
from command import check_refused, manyheads
from manyheads import Predictor, load_recipe
from manyheads.config.part import PartConfig
from manyheads.console import Reporter
from manyheads.data.labels import LabelReader
from manyheads.errors import UserError
from manyheads.inference.predict import predict_tasks
from manyheads.parts.kinds.calibration import apply_temperature, fit_temperature
from manyheads.parts.metrics import score
from manyheads.parts.samplers import Batch
from manyheads.parts.scalarizers import Sum
from manyheads.storage.ragged import Ragged
from manyheads.tasks.load import load_tasks
from manyheads.tasks.teacher_faults import taught_faults
from manyheads.training.gradients.backward import Backward
from manyheads.training.gradients.combination import Combination
from manyheads.training.setup import assemble
from running_server import RunningServer

LETTERED = LabelReader("multiple-choice", candidate_labels="letter")


def choice_task(**given_parts: Any) -> Any:
    parts = {"loss": "choice-cross-entropy", **given_parts}
    return a_task(labels=LETTERED, **parts)


@pytest.fixture
def choosing(recipe_file: Callable[..., Path], toy_data: Path) -> Callable[..., Path]:
    write_rows(toy_data / "ask.jsonl", choice_rows(200, 0))
    write_rows(toy_data / "ask-dev.jsonl", choice_rows(60, 1))

    def make(task: dict[str, Any] | None = None, **changes: Any) -> Path:
        tasks = {"ask": {"train": "ask.jsonl", "dev": "ask-dev.jsonl", **(task or {})}}
        training = {"epochs": 10, "batch_size": 8, "learning_rate": 5e-3}
        return recipe_file(**{"tasks": tasks, "training": training, **changes})

    return make


def test_the_kind_is_seen_from_the_data(choosing: Callable[..., Path], toy_data: Path) -> None:
    loaded = load_tasks(load_recipe(choosing()))["ask"]
    assert (loaded.task.labels.kind, loaded.task.labels.candidate_labels) == ("multiple-choice", "letter")
    assert (loaded.task.encoding.name, loaded.task.loss.name) == ("cross", "choice-cross-entropy")
    rows = choice_rows(200, 0)
    assert loaded.train.labels is not None
    assert loaded.train.labels.tolist() == ["ABC".index(row["answer"]) for row in rows]

    lines = ["said,asked,a,b,c,right"]
    for row in rows[:40]:
        candidates = (*row["choices"], "")[:3]
        lines.append(f"a man,{row['question']},{','.join(candidates)},{'ABC'.index(row['answer']) + 1}")
    (toy_data / "ask.csv").write_text("\n".join(lines) + "\n")
    task = {"train": "ask.csv", "text": ["said", "asked"], "candidates": ["a", "b", "c"], "label": "right"}
    from_csv = load_tasks(load_recipe(choosing({**task, "dev": None})))["ask"]
    assert from_csv.task.labels.candidate_labels == "number"
    both = np.concatenate([from_csv.train.labels, from_csv.dev.labels])  # type: ignore[list-item]
    assert sorted(both.tolist()) == sorted("ABC".index(row["answer"]) for row in rows[:40])
    first = from_csv.train.texts[1].to_pylist()[0]
    assert first.split("␟")[0] in {row["question"] for row in rows}
    assert from_csv.train.texts[0].to_pylist()[0] == "a man"


@pytest.mark.slow
def test_choices_are_learnt_and_predicted(choosing: Callable[..., Path], toy_data: Path) -> None:
    result = manyheads("train", choosing({"encoding": "cross-bi"}))
    assert result.returncode == 0, result.stderr
    run = toy_data / "runs" / "toy"
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["dev"]["metrics"]["ask"]["accuracy"] > 0.9, "by chance 0.42"
    assert metrics["dev"]["metrics"]["ask"]["mrr"] > 0.95
    evaluated = manyheads("evaluate", run, "--json")
    assert json.loads(evaluated.stdout)["dev"]["metrics"] == metrics["dev"]["metrics"]

    rows = choice_rows(20, 2)
    predictor = Predictor.open(run / "best")
    predictions = predictor.predict("ask", [(row["question"], row["choices"]) for row in rows])
    right = 0
    for row, described in zip(rows, predictions, strict=True):
        assert [candidate["text"] for candidate in described["candidates"]] == row["choices"]
        probabilities = [candidate["probability"] for candidate in described["candidates"]]
        assert sum(probabilities) == pytest.approx(1, abs=1e-5)
        assert described["index"] == int(np.argmax(probabilities))
        assert described["prediction"] == row["choices"][described["index"]]
        assert described["label"] == "ABC"[described["index"]]
        right += described["label"] == row["answer"]
    assert right >= 18

    file = write_rows(toy_data / "new.jsonl", rows)
    for options in (("--task", "ask"), ("--all",)):
        lines = json.loads(manyheads("predict", run, file, "--json", *options).stdout)
        described = [line["ask"] if "--all" in options else line for line in lines]
        assert [line["label"] for line in described] == [line["label"] for line in predictions]
    csv = (run / "predictions" / "ask-dev.csv").read_text().splitlines()
    assert csv[0] == "id,prediction"
    assert set(csv[1:]) <= {f"{number},{letter}" for number in range(60) for letter in "ABC"}
    texts = [part for text in (rows[0]["question"], *rows[0]["choices"]) for part in ("--text", text)]
    shown = manyheads("predict", run, *texts).stdout
    assert shown.startswith(f"{predictions[0]['label']}\t{predictions[0]['prediction']}\t0.")
    check_refused(manyheads("predict", run, "--text", "the men ?"), "a choice needs at least two candidates, found 0")
    check_refused(manyheads("predict", run, file, "--text-column", "question"), "leave out --text-column")
    check_refused(manyheads("export", run), "kind 'multiple-choice' has a prediction per candidate")

    assert manyheads("report", run).returncode == 0
    assert ">by chance<" in (run / "report.html").read_text()
    with RunningServer(run) as server:
        inputs = [{"question": row["question"], "choices": row["choices"]} for row in rows[:3]]
        answer = server.client.post("/v1/predict", json={"inputs": inputs}).json()
        for line, expected in zip(answer["predictions"], predictions, strict=False):
            served = line["tasks"]["ask"]
            assert served["label"] == expected["label"]
            assert served["probability"] == pytest.approx(expected["probability"], abs=1e-4)
        refused = server.client.post("/v1/predict", json={"inputs": ["the men ?"]})
        assert refused.status_code == 422
        lacking = server.client.post("/v1/predict", json={"inputs": [{"question": "the men ?", "choices": ["a"]}]})
        assert "at least two candidates" in lacking.json()["error"]["message"]


@pytest.mark.slow
def test_a_check_describes_choices_and_finds_bad_rows(choosing: Callable[..., Path], toy_data: Path) -> None:
    rows = choice_rows(30, 3)
    rows[4]["answer"] = "Z"
    rows[7]["choices"] = ["alone"]
    write_rows(toy_data / "ask.jsonl", rows)
    result = manyheads("check", choosing())
    assert "ask.jsonl:5: label 'Z' is none of the" in result.stdout
    assert "ask.jsonl:8: a choice needs at least two candidates, found 1" in result.stdout
    assert "choices among 2 to 3 candidates; the right one is most often candidate" in result.stdout
    check_refused(manyheads("train", choosing()), "2 bad rows of 30")


# --- losses, metrics, calibration -------------------------------------------------------------------------------------

SCORES = st.lists(st.lists(st.floats(-8, 8), min_size=2, max_size=5), min_size=1, max_size=6)


@given(SCORES, st.data())
def test_the_loss_is_that_of_each_row_alone(rows: list[list[float]], data: st.DataObject) -> None:
    labels = [data.draw(st.integers(0, len(row) - 1)) for row in rows]
    smoothing = 0.2
    outputs = torch.tensor([[score] for row in rows for score in row], dtype=torch.float64, requires_grad=True)
    counts = torch.tensor([len(row) for row in rows])
    loss = PartConfig(name="choice-cross-entropy", options={"label_smoothing": smoothing}).build(
        "losses", choice_task()
    )
    values = loss(outputs, torch.tensor(labels), counts)
    probabilities = loss.predict(outputs, counts).tolist()
    gradient = torch.autograd.grad(values.sum(), outputs)[0][:, 0].tolist()
    for row, label, value in zip(rows, labels, values.tolist(), strict=True):
        exponentials = np.exp(np.array(row) - max(row))
        p = exponentials / exponentials.sum()
        target = np.full(len(row), smoothing / len(row))
        target[label] += 1 - smoothing
        logs = np.array(row) - max(row) - np.log(exponentials.sum())
        assert value == pytest.approx(-(target * logs).sum(), abs=1e-12)
        assert probabilities[: len(row)] == pytest.approx(p.tolist())
        assert gradient[: len(row)] == pytest.approx((p - target).tolist(), abs=1e-12)
        probabilities, gradient = probabilities[len(row) :], gradient[len(row) :]


def test_metrics_by_hand() -> None:
    task = choice_task(metrics=(PartConfig(name="accuracy"), PartConfig(name="mrr")))
    predicted = Ragged.from_rows([[0.2, 0.5, 0.3], [0.5, 0.5], [0.1, 0.2, 0.3, 0.4]], np.float64)
    labels = np.array([2, 1, 3])
    assert score(task, predicted, labels) == {"accuracy": pytest.approx(1 / 3), "mrr": pytest.approx(2 / 3)}
    first_alone = choice_task(metrics=(PartConfig(name="mrr", options={"k": 1}),))
    assert list(score(first_alone, predicted, labels).values()) == [pytest.approx(1 / 3)]
    assert task.kind.plain_loss(predicted, labels, task) == pytest.approx(-np.log([0.3, 0.5, 0.4]).mean())


@pytest.mark.numeric
def test_calibration_reads_each_rows_own_candidates() -> None:
    """Rows of equal length give what they gave as an array; and what is behind a row's end changes nothing."""
    drawn = np.random.default_rng(0)
    rows = [drawn.dirichlet(np.full(2 + number % 3, 0.2)) for number in range(50)]
    labels = np.array([int(drawn.integers(len(row))) for row in rows])
    task = choice_task()
    fitted = task.kind.fit_calibration(Ragged.from_rows(rows, np.float64), labels, task)["temperature"]
    assert fitted > 1.5, "they are sure of nothing but noise"
    calibrated = task.kind.calibrate(Ragged.from_rows(rows, np.float64), task.with_calibration({"temperature": fitted}))
    for row, expected in zip(calibrated, rows, strict=True):
        powers = np.maximum(expected, 1e-12) ** (1 / fitted)
        assert row.tolist() == pytest.approx((powers / powers.sum()).tolist())
    smooth, inverses = 1 / 51, np.linspace(0.05, 20, 4000)

    def mean_loss(inverse: float) -> float:
        total = 0.0
        for row, label in zip(rows, labels, strict=True):
            logs = np.log(np.maximum(row, 1e-12)) * inverse
            logs = logs - logs.max() - np.log(np.exp(logs - logs.max()).sum())
            total -= (1 - smooth) * logs[label] + smooth * logs.mean()
        return total

    assert 1 / fitted == pytest.approx(inverses[np.argmin([mean_loss(inverse) for inverse in inverses])], abs=0.01)
    square = np.stack([row for row in rows if len(row) == 3])
    there = np.ones(square.shape, dtype=bool)
    few = labels[[len(row) == 3 for row in rows]]
    assert fit_temperature(square, few, there) == fit_temperature(square, few)
    assert apply_temperature(square, 2.0, there).tolist() == apply_temperature(square, 2.0).tolist()


# --- the packed pass --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["cross", "bi-siamese", "cross-bi"])
def test_candidates_in_one_pass_are_those_read_alone(choosing: Callable[..., Path], encoding: str) -> None:
    setup = assemble(load_recipe(choosing({"encoding": encoding})), Reporter(quiet=True))
    model, data = setup.model.double().eval(), setup.datasets.train["ask"]
    rows = list(range(7))
    with torch.no_grad():
        (packed,) = model([("ask", [data.inputs(model, row) for row in rows])])
        alone = []
        for row in rows:
            inputs = data.inputs(model, row)
            per_candidate = len(inputs) // len(choice_rows(200, 0)[row]["choices"])
            for first in range(0, len(inputs), per_candidate):
                alone.append(model([("ask", [inputs[first : first + per_candidate]])])[0])
    assert torch.allclose(packed, torch.cat(alone), atol=1e-10)
    predicted = predict_tasks(model, {"ask": data}, 40, {"ask": np.arange(7)})["ask"]
    assert isinstance(predicted, Ragged)
    assert predicted.lengths.tolist() == [len(row["choices"]) for row in choice_rows(7, 0)]
    assert [row.sum() for row in predicted] == pytest.approx([1.0] * 7, abs=1e-5)


@pytest.mark.slow
@pytest.mark.numeric
def test_passes_of_few_tokens_have_the_gradient_of_one(choosing: Callable[..., Path]) -> None:
    setup = assemble(load_recipe(choosing()), Reporter(quiet=True))
    model, data = setup.model.double().eval(), setup.datasets.train
    gradients, losses = [], []
    for tokens_per_pass in (30, 10_000):
        model.zero_grad()
        backward = Backward(model, data, tokens_per_pass, nullcontext)
        step = backward.step([[Batch("ask", np.arange(9))]], Combination(Sum(["ask"])))
        losses.append(step.losses["ask"])
        gradients.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    assert losses[0] == pytest.approx(losses[1], rel=1e-10)
    assert 0.3 < losses[0] < 3, "the mean over rows, near the logarithm of 2 or 3"
    for few, many in zip(*gradients, strict=True):
        assert torch.allclose(few, many, atol=1e-10)


@pytest.mark.slow
def test_a_resumed_training_is_the_same(choosing: Callable[..., Path], toy_data: Path) -> None:
    from test_word_tags import KILLED_AT_STEP_8

    recipe = choosing(training={"epochs": 1, "batch_size": 8})
    assert manyheads("train", recipe, "name=whole").returncode == 0
    assert manyheads("train", recipe, "name=parted", before=KILLED_AT_STEP_8).returncode == 9
    runs = toy_data / "runs"
    resumed = manyheads("resume", runs / "parted")
    assert resumed.returncode == 0, resumed.stderr
    for name in ("best/heads.safetensors", "best/model.safetensors", "dev.safetensors"):
        assert (runs / "whole" / name).read_bytes() == (runs / "parted" / name).read_bytes()


def test_teachers_are_refused_without_advice_that_does_not_exist() -> None:
    [fault] = taught_faults([choice_task()])
    assert fault.reason == (
        "'choice-cross-entropy' has no formula for what a teacher predicts; give the task no teachers (distill.tasks)."
    )


# --- what is refused --------------------------------------------------------------------------------------------------


def refused_combinations() -> list[tuple[dict[str, Any], str]]:
    """The rows of the table in docs/choosing.md: what a recipe says, and a part of what it is told."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "choosing.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]*)` \| `(.*)` \|$", page, re.M)
    assert len(rows) > 10
    return [(yaml.safe_load("{" + settings + "}"), reason) for settings, reason in rows]


@pytest.mark.slow
def test_every_refusal_of_the_table_is_one(choosing: Callable[..., Path]) -> None:
    for settings, reason in refused_combinations():
        with pytest.raises(UserError) as refusal:
            assemble(load_recipe(choosing(settings)), Reporter(quiet=True))
        assert reason in str(refusal.value), (settings, str(refusal.value))
