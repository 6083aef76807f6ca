"""Models are calibrated on the examples that choose them, and all that predicts with them uses it; baselines beside."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from conftest import toy_settings, write_toy_data
from manyheads import Predictor, Run, load_recipe, train
from manyheads.inference.calibration import fit_calibration
from manyheads.inference.dev_examples import read_dev_examples
from manyheads.inference.predict import predict_tasks
from manyheads.model.folder import load_model
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.kinds.calibration import apply_temperature
from manyheads.tasks.load import load_tasks
from spoiled_folders import in_json

pytestmark = pytest.mark.slow

TOPICS = ["dog", "film", "tea"]
UNCALIBRATED: dict[str, Any] = {"temperature": 1.0, "thresholds": ()}


def write_data(folder: Path) -> Path:
    write_toy_data(folder)
    rows = []
    for number in range(120):
        present = [topic for index, topic in enumerate(TOPICS) if (number // (index + 1)) % 3 == 0 and number % 8]
        rows.append(f"{number},one {' and '.join(present) or 'red'} {number % 5},{';'.join(present) or '[]'}")
    (folder / "topics.csv").write_text("id,text,label\n" + "\n".join(rows) + "\n")
    again = (folder / "mood.csv").read_text().splitlines()
    (folder / "again.csv").write_text("\n".join([again[0], *again[:0:-1]]) + "\n")
    return folder


def recipe_of(data: Path, encoder: Path, **changes: Any) -> dict[str, Any]:
    settings = toy_settings(data, encoder)
    settings["tasks"] |= {
        "topics": {"train": "topics.csv", "kind": "multi-label", "separator": ";"},
        "again": {"train": "again.csv", "head_of": "mood"},
    }
    settings["data"]["dev_share"] = 0.3
    settings["training"] = {"epochs": 4, "batch_size": 6, "learning_rate": 5e-3, "average_weights": 0.5}
    return {**settings, "evaluate": {"select": 0.3, "calibrate": True}, **changes}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, toy_encoder: Path) -> Run:
    """Four tasks, two of them with one head, whose models are chosen on rows held out of train."""
    data = write_data(tmp_path_factory.mktemp("calibrated"))
    return train(load_recipe(recipe_of(data, toy_encoder)), quiet=True)


def own_predictions(folder: Path, run: Run, split: str) -> dict[str, tuple[Any, np.ndarray, np.ndarray]]:
    """Of a model folder, before its calibration: task → (task without calibration, predictions, labels)."""
    model, _ = load_model(folder)
    predicted = {}
    for name, loaded in load_tasks(run.recipe).items():
        task = model.tasks[name].with_calibration(UNCALIBRATED)
        data = TaskTokens(task, getattr(loaded, split), model.tokenizer, row_group=loaded.row_group)
        labels = data.labels_of(data.examples.labelled_rows)
        predicted[name] = (task, predict_tasks(model, {name: data}, 4096)[name], labels)
    return predicted


@pytest.mark.parametrize("folder", ["best", "best-topics", "best-again", "best-averaged"])
def test_every_saved_model_has_the_calibration_of_the_examples_that_chose_it(run: Run, folder: str) -> None:
    """Fitted again here to the folder's own predictions of the held-out rows."""
    model, _ = load_model(run.folder / folder)
    fitted = {}
    for name, (task, predictions, labels) in own_predictions(run.folder / folder, run, "select").items():
        fitted[name] = fit_calibration(task, predictions, labels)
    for name in ("mood", "again"):
        assert model.tasks[name].temperature == pytest.approx(fitted[name]["temperature"], rel=1e-4)
        assert model.tasks[name].temperature != 1.0
    assert model.tasks["topics"].thresholds == pytest.approx(fitted["topics"]["thresholds"], rel=1e-4)
    assert set(model.tasks["topics"].thresholds) != {0.5}
    assert (model.tasks["near"].temperature, model.tasks["near"].thresholds) == (1.0, ())


def test_tasks_with_one_head_have_temperatures_of_their_own(run: Run) -> None:
    tasks = run.model.tasks
    assert tasks["again"].head_of == "mood"
    assert tasks["again"].temperature != tasks["mood"].temperature


def test_files_metrics_and_the_predictor_say_the_same(run: Run) -> None:
    """dev.safetensors, metrics.json, prediction files, `Run.evaluate` and best/ opened alone: calibrated once."""
    tensors = load_file(run.folder / "dev.safetensors")
    dev = own_predictions(run.folder / "best", run, "dev")
    for name in ("mood", "again"):
        _, predictions, _ = dev[name]
        expected = apply_temperature(predictions, run.model.tasks[name].temperature)
        assert tensors[f"{name}.predictions"] == pytest.approx(expected, abs=1e-5)
        assert (expected.argmax(axis=1) == predictions.argmax(axis=1)).all()
    evaluation, metrics = run.evaluate(), run.metrics["dev"]
    for name, values in evaluation.metrics.items():
        assert values == pytest.approx(metrics["metrics"][name], abs=1e-6)
    assert evaluation.losses == pytest.approx(metrics["losses"], abs=1e-6)
    written = (run.folder / "predictions" / "topics-dev.csv").read_text().splitlines()[1:]
    thresholds = np.array(run.model.tasks["topics"].thresholds)
    for line, row in zip(written, tensors["topics.predictions"], strict=True):
        present = [topic for topic, is_present in zip(TOPICS, row >= thresholds, strict=True) if is_present]
        assert line.split(",")[1] == (";".join(present) or "[]")
    texts = [text for (text,) in read_dev_examples(run.folder)["mood"].texts]
    predicted = Predictor.open(run.folder / "best").predict("mood", texts)
    for described, row in zip(predicted, tensors["mood.predictions"], strict=True):
        assert list(described["probabilities"].values()) == pytest.approx(row, abs=1e-6)


def test_what_the_calibration_did_is_in_metrics(run: Run) -> None:
    calibration, dev = run.metrics["calibration"], run.metrics["dev"]
    assert set(calibration) == {"mood", "topics", "again"}
    mood = calibration["mood"]
    assert mood["temperature"] == run.model.tasks["mood"].temperature
    after = {"loss": dev["losses"]["mood"], "calibration-error": dev["metrics"]["mood"]["calibration-error"]}
    assert mood["after"] == pytest.approx(after)
    _, predictions, labels = own_predictions(run.folder / "best", run, "dev")["mood"]
    loss = -np.log(predictions[np.arange(len(labels)), labels].astype(np.float64)).mean()
    assert mood["before"]["loss"] == pytest.approx(loss, abs=1e-6)
    topics = calibration["topics"]
    assert topics["thresholds"] == dict(zip(TOPICS, run.model.tasks["topics"].thresholds, strict=True))
    assert topics["after"]["macro-f1"] == dev["metrics"]["topics"]["macro-f1"]
    saved = json.loads((run.folder / "tasks.json").read_text())
    assert [task["temperature"] for task in saved] == [task.temperature for task in run.model.tasks.values()]


def test_the_majority_by_hand(run: Run) -> None:
    """Accuracy is dev's share of train's most frequent class, F1 that of classes predicted always, MSE the mean's."""
    majority = run.metrics["majority"]
    data = load_tasks(run.recipe)
    train_labels, labels = data["mood"].train.labels, data["mood"].dev.labels
    assert isinstance(train_labels, np.ndarray)
    most_frequent = np.bincount(train_labels).argmax()
    assert majority["metrics"]["mood"]["accuracy"] == pytest.approx((labels == most_frequent).mean())
    near_train, near_dev = data["near"].train.labels, data["near"].dev.labels
    assert isinstance(near_train, np.ndarray)
    assert isinstance(near_dev, np.ndarray)
    assert majority["metrics"]["near"]["mse"] == pytest.approx(((near_dev - near_train.mean()) ** 2).mean())
    assert majority["metrics"]["near"]["pearson"] is None, "a constant has no correlation"
    topics = data["topics"].dev.labels
    assert isinstance(topics, np.ndarray)
    share = topics.mean(axis=0)  # predicted always: precision is the share, recall 1
    assert majority["metrics"]["topics"]["macro-f1"] == pytest.approx((2 * share / (1 + share)).mean())
    assert majority["examples"] == run.metrics["dev"]["examples"]
    assert set(majority) == {"metrics", "overall", "examples", "losses"}


def test_without_calibration_all_is_as_before(run: Run, toy_encoder: Path, tmp_path: Path) -> None:
    """`defaults: 0.1` has it off: probabilities are the model's own, classes are predicted from 0.5 on."""
    tasks = ["mood", "topics"]
    recipe = recipe_of(write_data(tmp_path), toy_encoder, training={"epochs": 1}, evaluate={"select": 0.3})
    plain = train(load_recipe(recipe, {"tasks": tasks}), quiet=True)
    assert plain.recipe.evaluate.calibrate is False
    assert "calibration" not in plain.metrics
    saved = json.loads((plain.folder / "best" / "manyheads.json").read_text())["tasks"]
    assert [(task["temperature"], task["thresholds"]) for task in saved] == [(1.0, []), (1.0, [])]
    tensors = load_file(plain.folder / "dev.safetensors")
    for name, (_, predictions, _) in own_predictions(plain.folder / "best", plain, "dev").items():
        assert tensors[f"{name}.predictions"].dtype == np.float32
        assert tensors[f"{name}.predictions"] == pytest.approx(predictions, abs=1e-6)
    # no class of these is in half of the rows or more: the constant predicts none, where thresholds are not fitted
    assert (
        plain.metrics["majority"]["metrics"]["topics"]["macro-f1"]
        < run.metrics["majority"]["metrics"]["topics"]["macro-f1"]
    )
    assert run.recipe.evaluate.calibrate is True


def test_a_folder_of_an_earlier_version_opens_as_before(run: Run, tmp_path: Path) -> None:
    """Without the two keys: temperature 1 and thresholds of 0.5."""
    folder = Path(shutil.copytree(run.folder / "best", tmp_path / "best"))

    def forget(content: dict[str, Any]) -> None:
        for task in content["tasks"]:
            del task["temperature"], task["thresholds"]

    in_json("manyheads.json", forget)(folder)
    tasks = Predictor.open(folder).tasks
    assert {(task.temperature, task.thresholds) for task in tasks.values()} == {(1.0, ())}
