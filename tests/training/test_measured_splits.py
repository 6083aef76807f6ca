"""What a run measures besides dev: a part of train at every evaluation, and test, once, at the end."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from manyheads import load_recipe, train
from manyheads.inference.evaluate import evaluate_model, fixed_subset
from manyheads.model.task_tokens import TaskTokens
from manyheads.runs.history import best_entry, read_history
from manyheads.runs.run import Run
from manyheads.tasks.load import load_tasks
from resuming import check_resumed
from run_files import log_of

ToyRecipe = Callable[..., dict[str, Any]]
TRAIN_EXAMPLES = 10


def evaluations(run: Run) -> list[dict[str, Any]]:
    return log_of(run.folder, "evaluate")


@pytest.mark.slow
def test_train_is_measured_on_a_fixed_part_without_dropout(toy_recipe: ToyRecipe) -> None:
    """The figures are those of the saved model on these rows; the training is the one that it is without them."""
    settings = {"train_examples": TRAIN_EXAMPLES}
    training = {"epochs": 1, "batch_size": 8, "learning_rate": 1e-3}
    recipe = load_recipe(toy_recipe(name="measured", evaluate=settings, training=training))
    run = train(recipe, quiet=True)
    plain = train(load_recipe(toy_recipe(name="plain", training=training)), quiet=True)
    data: dict[str, TaskTokens] = {}
    rows: dict[str, np.ndarray] = {}
    for name, loaded in load_tasks(recipe).items():
        data[name] = TaskTokens(run.model.tasks[name], loaded.train, run.model.tokenizer)  # calibrated
        rows[name] = fixed_subset(data[name], TRAIN_EXAMPLES, recipe.seed)
        assert len(rows[name]) == TRAIN_EXAMPLES
    expected, _ = evaluate_model(run.model, data, recipe.evaluate, rows)
    (record,) = evaluations(run)
    assert record["train"] == expected.metrics
    assert record["train_losses"] == expected.losses
    assert "train" not in evaluations(plain)[0]
    assert "train" not in read_history(plain.log())[0]
    weights, same_weights = (load_file(one.folder / "best" / "model.safetensors") for one in (run, plain))
    assert all(torch.equal(weights[name], same_weights[name]) for name in weights)


@pytest.mark.slow
def test_a_part_larger_than_train_is_all_of_it_and_unlabelled_rows_do_not_count(
    toy_recipe: ToyRecipe, toy_data: Path
) -> None:
    """Two tasks read the same rows; one has a label for every other row only."""
    rows = [f"the film was {i},{i % 2},{i % 2 if i % 4 < 2 else ''}" for i in range(40)]
    (toy_data / "both.csv").write_text("sentence,a,b\n" + "\n".join(rows) + "\n")
    tasks = {name: {"train": "both.csv", "text": "sentence", "label": name} for name in ("a", "b")}
    recipe = load_recipe(toy_recipe(tasks=tasks, evaluate={"train_examples": 1000}))
    loaded = load_tasks(recipe)
    assert not loaded["b"].train.labelled.all()
    run = train(recipe, quiet=True)
    last = evaluations(run)[-1]
    assert set(last["train"]) == {"a", "b"}
    labels = loaded["b"].train.labels[loaded["b"].train.labelled]
    correct = last["train"]["b"]["accuracy"] * len(labels)
    assert correct == pytest.approx(round(correct)), "a share of the labelled rows"


@pytest.mark.slow
def test_a_resumed_run_measures_the_same_and_its_history_has_nothing_twice(
    toy_recipe: ToyRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = {"train_examples": TRAIN_EXAMPLES, "before": True, "every_steps": 2}
    check_resumed(toy_recipe, monkeypatch, at=5, evaluate=evaluate)
    folder = Path(toy_recipe()["output"])
    history, straight = (read_history(Run(folder / name).log()) for name in ("cut", "straight"))
    assert history == straight
    steps = [entry["step"] for entry in history]
    assert steps == sorted(set(steps))
    assert steps[0] == 0


def record(step: int, value: float | None, **more: Any) -> dict[str, Any]:
    metrics = {"mood": {"accuracy": value}}
    return {"event": "evaluate", "step": step, "epoch": 1 + step // 10, "metrics": metrics, "overall": 0.5,
            "losses": {"mood": 1 / 3}, "examples": {"mood": 4}, "seconds": 1.0, "seen": {}, **more}  # fmt: skip


def test_history_has_one_entry_per_step_and_short_numbers() -> None:
    records = [record(10, 0.25), {"event": "step", "step": 11}, record(20, 0.5), record(20, 0.5, train={"mood": {}})]
    assert read_history(records) == [
        {"step": 10, "epoch": 2, "metrics": {"mood": {"accuracy": 0.25}}, "overall": 0.5, "losses": {"mood": 0.333333},
         "examples": {"mood": 4}},
        {"step": 20, "epoch": 3, "metrics": {"mood": {"accuracy": 0.5}}, "overall": 0.5, "losses": {"mood": 0.333333},
         "examples": {"mood": 4}, "train": {"mood": {}}},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "best_step"),
    [
        ([0.9, 0.5, 0.5, 0.4], 10),  # before training does not count, and of equals the first does
        ([None, None, 0.2, 0.3], 30),  # undefined values are passed over
        ([0.1, None, None, None], None),
    ],
)
def test_the_best_evaluation_of_a_task(toy_recipe: ToyRecipe, values: list[float | None], best_step: int) -> None:
    task = load_tasks(load_recipe(toy_recipe()))["mood"].task
    history = read_history([record(10 * number, value) for number, value in enumerate(values)])
    best = best_entry(history, task)
    assert (best and best["step"]) == best_step


def test_where_low_is_best_the_lowest_is(toy_recipe: ToyRecipe) -> None:
    tasks = {"near": {"train": "near.tsv", "range": [0, 5], "metrics": ["mse"]}}
    task = load_tasks(load_recipe(toy_recipe(tasks=tasks)))["near"].task
    history = []
    for step, value in ((1, 3.0), (2, 1.5), (3, 1.5), (4, 2.0)):
        history.append({"step": step, "epoch": step, "metrics": {"near": {"mse": value}}})
    best = best_entry(history, task)
    assert best is not None
    assert best["epoch"] == 2


# --- test ---------------------------------------------------------------------------------------------------------


def write_test(folder: Path, labels: list[str]) -> None:
    rows = [f"t{number},the film was good {number},{label}" for number, label in enumerate(labels)]
    (folder / "mood-test.csv").write_text("id,sentence,label\n" + "\n".join(rows) + "\n")


def trained_with_test(toy_recipe: ToyRecipe, capsys: pytest.CaptureFixture[str], **task: Any) -> tuple[Run, str]:
    tasks = toy_recipe()["tasks"]
    tasks["mood"] |= {"test": "mood-test.csv", **task}
    run = train(load_recipe(toy_recipe(tasks=tasks)))
    return run, capsys.readouterr().err


def predicted_classes(run: Run) -> list[str]:
    (file,) = (run.folder / "predictions").glob("*mood*test*")
    with file.open(encoding="utf-8", newline="") as content:
        return [row[1] for row in csv.reader(content)][1:]


@pytest.mark.slow
def test_labelled_test_rows_are_measured_once_at_the_end(
    toy_recipe: ToyRecipe, toy_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ["0", "1", "2", "3", "", "2"]  # the fifth is predicted, and not counted
    write_test(toy_data, labels)
    run, said = trained_with_test(toy_recipe, capsys)
    predicted = predicted_classes(run)
    assert len(predicted) == 6
    correct = sum(label == guess for label, guess in zip(labels, predicted, strict=True) if label)
    test = run.metrics["test"]
    assert test["metrics"]["mood"]["accuracy"] == pytest.approx(correct / 5)
    assert test["examples"] == {"mood": 5}
    assert "overall" not in test, "the other task has no test data"
    assert f"test: read once, at the end: mood accuracy {correct / 5:.3f} of 5" in said
    records = run.log()
    assert [record["event"] for record in records if "test" in record] == ["end"]
    assert records[-1]["test"] == test


@pytest.mark.slow
@pytest.mark.parametrize("labels", [["-1"] * 4, ["0", "1", "?", "2"], [""] * 4])
def test_test_labels_that_say_nothing_are_not_measured(
    toy_recipe: ToyRecipe, toy_data: Path, capsys: pytest.CaptureFixture[str], labels: list[str]
) -> None:
    write_test(toy_data, labels)
    run, said = trained_with_test(toy_recipe, capsys)
    assert len(predicted_classes(run)) == 4
    assert "test" not in run.metrics
    assert "read once" not in said
    assert "note: mood: test is predicted but not measured, for not all labels are usable" in said


@pytest.mark.slow
def test_with_bad_rows_skipped_the_good_labels_count(
    toy_recipe: ToyRecipe, toy_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_test(toy_data, ["0", "1", "?", "2"])
    run, _ = trained_with_test(toy_recipe, capsys, bad_rows="skip")
    assert len(predicted_classes(run)) == 4, "its text can be read"
    assert run.metrics["test"]["examples"] == {"mood": 3}


@pytest.mark.slow
def test_the_overall_test_score_is_of_all_tasks(
    toy_recipe: ToyRecipe, toy_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = {name: {**task, "test": task["train"]} for name, task in toy_recipe()["tasks"].items()}
    run = train(load_recipe(toy_recipe(tasks=tasks)))
    test = json.loads((run.folder / "metrics.json").read_text())["test"]
    accuracy, pearson = test["metrics"]["mood"]["accuracy"], test["metrics"]["near"]["pearson"]
    assert test["overall"] == pytest.approx((accuracy + (1 + pearson) / 2) / 2)


@pytest.mark.slow
@pytest.mark.parametrize("calibrate", [False, True])
def test_an_evaluation_just_made_is_not_repeated(
    toy_recipe: ToyRecipe, calibrate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where best/ was chosen on all of dev, its predictions are known; the figures are those of predicting again."""

    def repeat(*given: Any) -> None:
        raise AssertionError("dev is predicted once more")

    monkeypatch.setattr("manyheads.training.finish.evaluate_with_progress", repeat)
    run = train(load_recipe(toy_recipe(evaluate={"select": None, "calibrate": calibrate})), quiet=True)
    assert run.metrics["dev"]["metrics"] == run.evaluate(split="dev").metrics
    kept = load_file(run.folder / "dev.safetensors")
    for name, scores in run.evaluate(split="dev").tasks.items():
        assert np.array_equal(kept[f"{name}.predictions"].numpy(), scores.predictions), name


@pytest.mark.slow
def test_where_dev_was_measured_in_part_it_is_predicted_whole(toy_recipe: ToyRecipe) -> None:
    run = train(load_recipe(toy_recipe(evaluate={"select": None, "max_examples": 2})), quiet=True)
    assert run.metrics["dev"]["examples"] == run.evaluate(split="dev").examples
    assert max(evaluations(run)[-1]["examples"].values()) == 2
