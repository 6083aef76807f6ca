"""Averages of runs that extend a model: what the model had stays as it is there too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from building import NUMBERS, ORDINAL, a_task, toy_model
from conftest import made_once, toy_settings, write_toy_data
from manyheads import Predictor, UserError, average, extend
from manyheads.encoder.toy import write_toy_encoder
from manyheads.model.folder import load_model, save_model

pytestmark = pytest.mark.slow
ABOUT = {"run": "old", "left_out": {"mood": {"number": 1, "of": 2, "texts": "a hash"}}}
TEXTS = ["the film was dull", "a great book 7"]


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """old/ is a model with a calibrated task; runs/fast and runs/slow add 'tone' to it, at two rates."""

    def make(folder: Path) -> None:
        encoder = write_toy_encoder(folder / "encoder")
        tasks = [a_task(name="mood", labels=ORDINAL, encoding="single"), a_task(name="near", labels=NUMBERS)]
        save_model(folder / "old", toy_model(encoder, tasks), encoder, ABOUT, {"mood": {"temperature": 2.0}})
        settings = toy_settings(write_toy_data(folder), encoder) | {"tasks": {"tone": {"train": "mood.csv"}}}
        settings |= {"evaluate": {"select": 0.25, "calibrate": True}, "checkpoint": {"every_steps": 1, "keep": 2}}
        del settings["encoder"]
        for name, rate in (("fast", 1e-2), ("slow", 1e-3)):
            training: dict[str, Any] = {"epochs": 1, "max_steps": 3, "batch_size": 8, "learning_rate": rate}
            extend(folder / "old", settings | {"name": name, "training": training}, quiet=True)

    return made_once(tmp_path_factory, "extended-soup", make)


def content_of(model: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((model / "manyheads.json").read_text())
    return content


def test_an_average_of_extended_runs_keeps_what_they_extend(extended: Path, tmp_path: Path) -> None:
    runs = [extended / "runs" / "fast", extended / "runs" / "slow"]
    soup = average(runs, tmp_path / "soup")
    assert (soup.notes, list(soup.dev["metrics"] if soup.dev else {})) == ([], ["tone"])
    old, mean = content_of(extended / "old"), content_of(tmp_path / "soup")
    assert [task["name"] for task in mean["tasks"]] == ["mood", "near", "tone"]
    assert mean["tasks"][:2] == old["tasks"], "with their calibration"
    assert mean["about"]["extends"] == {"tasks": ["mood", "near"], **ABOUT}
    first, second = (Predictor.open(folder) for folder in (extended / "old", tmp_path / "soup"))
    assert second.predict("mood", TEXTS) == first.predict("mood", TEXTS)
    for file in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (tmp_path / "soup" / file).read_bytes() == (extended / "old" / file).read_bytes()
    heads = [load_file(run / "best" / "heads.safetensors") for run in runs]
    averaged = load_file(tmp_path / "soup" / "heads.safetensors")
    for name, tensor in averaged.items():
        expected = (heads[0][name].numpy().astype(np.float64) + heads[1][name].numpy().astype(np.float64)) / 2
        assert np.array_equal(tensor.numpy(), expected.astype(np.float32)), name
    assert second.task("tone").temperature != 1.0, "fitted to the mean"


def test_an_average_with_itself_keeps_it_too(extended: Path, tmp_path: Path) -> None:
    run = extended / "runs" / "fast"
    average([run, run], tmp_path / "soup", greedy=True)
    assert content_of(tmp_path / "soup")["tasks"] == content_of(run / "best")["tasks"]
    assert (tmp_path / "soup" / "heads.safetensors").read_bytes() == (run / "best" / "heads.safetensors").read_bytes()


def test_the_checkpoints_of_an_extended_run(extended: Path, tmp_path: Path) -> None:
    run = extended / "runs" / "fast"
    soup = average(run, tmp_path / "soup", checkpoints=True)
    assert len(soup.models) == 2
    kept = [load_file(folder / "model.safetensors") for folder in sorted((run / "checkpoints").glob("step-*"))]
    old, mean = (load_model(folder)[0].state_dict() for folder in (extended / "old", tmp_path / "soup"))
    for name, tensor in mean.items():
        if name in old:
            assert np.array_equal(tensor.numpy(), old[name].numpy()), name
            continue
        expected = sum(states[name].numpy().astype(np.float64) for states in kept) / 2
        assert np.array_equal(tensor.numpy(), expected.astype(np.float32)), name
    assert content_of(tmp_path / "soup")["tasks"][:2] == content_of(extended / "old")["tasks"]


def test_runs_that_extend_other_models_are_refused(extended: Path, tmp_path: Path) -> None:
    """The encoder and the names of its tasks are the same, an old head is another."""
    other = Path(shutil.copytree(extended / "runs" / "slow", tmp_path / "other"))
    model, about = load_model(other / "best")
    model.state_dict()["heads.mood-head.head.dense.weight"].add_(1)
    save_model(other / "best", model, other / "best", about)
    with pytest.raises(UserError) as refusal:
        average([extended / "runs" / "fast", other], tmp_path / "soup")
    assert refusal.value.code == "other-extended"
